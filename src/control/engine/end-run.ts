// Ends a run under its run lock; the operation that ends it also frees its slot.
import type { Config } from "../../config.ts";
import type { RiskClass } from "../../domain/lock.ts";
import type { RunId, TerminalStatus } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Ports } from "../../ports/ports.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import { runLockTerms } from "../locks/lease-terms.ts";
import { withLease } from "../locks/with-lease.ts";

export type EndRunRequest = {
  readonly tenant: TenantId;
  readonly runId: RunId;
  readonly status: TerminalStatus;
  readonly actor: string;
  readonly risk: RiskClass;
};

export type EndRunAnswer =
  | { readonly kind: "ended"; readonly status: TerminalStatus }
  | { readonly kind: "already_ended"; readonly status: TerminalStatus }
  | { readonly kind: "not_found" }
  /** Another owner holds the run, or took it over. */
  | { readonly kind: "busy" }
  | { readonly kind: "unavailable"; readonly cause: string }
  /** It may have ended; asking again finds out. */
  | { readonly kind: "unknown"; readonly cause: string };

const dayMs = 86_400_000;

export async function endRun(
  ports: Ports,
  config: Config,
  request: EndRunRequest,
  signal?: AbortSignal,
): Promise<EndRunAnswer> {
  const { tenant, runId, status, actor } = request;
  const target = { tenant, lock: { namespace: "run", name: runId } } as const;
  const terms = runLockTerms(config, request.risk, "wait");
  const limits = { callTimeoutMs: terms.callTimeoutMs, budgetMs: 2 * terms.callTimeoutMs };
  const days = config["admission.keyRetentionDays"];
  const retention = days === 0 ? {} : { keyRetentionMs: days * dayMs };
  const outcome = await withLease(
    ports,
    target,
    terms,
    (lease) =>
      askUntilKnown(ports, "endRun", limits, (deadlineMs) =>
        lease.write("endRun", { tenant, runId, status, actor, ...retention }, deadlineMs),
      ),
    signal,
  );
  switch (outcome.kind) {
    case "finished":
      return answerOf(outcome.value);
    case "busy":
      return { kind: "busy" };
    case "cancelled":
      return { kind: "unavailable", cause: "the caller went away" };
    case "abandoned":
    case "unavailable":
    case "unknown":
      // Nothing was written: the lock was not had, or was lost before the write was sent.
      return { kind: "unavailable", cause: outcome.cause };
  }
}

function answerOf(value: Awaited<ReturnType<Ports["store"]["endRun"]>>): EndRunAnswer {
  switch (value.kind) {
    case "ended":
    case "already_ended":
      return { kind: value.kind, status: value.status };
    case "not_found":
      return { kind: "not_found" };
    case "stale_fence":
      return { kind: "busy" };
    case "unavailable":
    case "unknown":
      return { kind: value.kind, cause: value.cause };
  }
}
