// Opens feeds: a tenant's rows, or one run's timeline to its end.
import type { RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { ControlApi } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import type { FeedStart } from "./feed.ts";

type Answer<Name extends "followEvents" | "followRun"> = Awaited<ReturnType<ControlApi[Name]>>;

export async function followEvents(
  { feeds }: Pick<Engine, "feeds">,
  tenant: TenantId,
  start: FeedStart,
): Promise<Answer<"followEvents">> {
  const opened = await feeds.ofTenant(tenant, start);
  if (opened.kind === "gone") throw new Error("a tenant's rows are never gone");
  return opened;
}

export async function followRun(
  { feeds }: Pick<Engine, "feeds">,
  { tenant, runId }: { readonly tenant: TenantId; readonly runId: RunId },
  start: FeedStart,
): Promise<Answer<"followRun">> {
  const opened = await feeds.ofRun(tenant, runId, start);
  if (opened.kind === "gone") return { kind: "not_found" };
  if (opened.kind !== "open") return opened;
  const { feed, last, end } = opened;
  if (end === undefined || start.kind !== "after" || start.number !== last)
    return { kind: "open", feed, last };
  feed.close();
  return { kind: "ended" };
}
