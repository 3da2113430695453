// Plays a workflow through without starting it: what would be done, with the outputs that workers and child runs are said to give.

import { problemsOfInput } from "../../domain/engine/apply.ts";
import { type DryRun, playDryRun } from "../../domain/engine/dry-run.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import type { GatesPlan } from "../../domain/gates.ts";
import { planGates, type StartExpressionFailed } from "../../domain/plan-gates.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Problem } from "../../domain/workflow/compiled.ts";
import { queueDefaults } from "../admission/plan-start.ts";
import { settingsOf } from "../admission/tenant-cache.ts";
import type { Engine } from "../engine/engine.ts";

type DryRunRequest = {
  readonly tenant: TenantId;
  readonly workflow: string;
  readonly input: JsonValue;
  /** What workers and child runs would answer, by step. */
  readonly outputs: Readonly<Record<string, JsonValue>>;
};

export type DryRunAnswer =
  /** `plan`: how the run would pass its gates; absent where it has none. */
  | { readonly kind: "played"; readonly play: DryRun; readonly plan?: GatesPlan }
  | StartExpressionFailed
  | { readonly kind: "workflow_not_found" }
  | { readonly kind: "input_invalid"; readonly problems: readonly Problem[] }
  | { readonly kind: "store_unavailable"; readonly cause: string };

export async function dryRun(engine: Engine, request: DryRunRequest): Promise<DryRunAnswer> {
  const { tenant, workflow, input, outputs } = request;
  const current = await engine.definitions.current(tenant, workflow);
  if (current.kind === "not_found") return { kind: "workflow_not_found" };
  if (current.kind !== "current") return { kind: "store_unavailable", cause: current.cause };
  const { definition } = current;
  const timed = <Value>(work: () => Value) => engine.computing.time("dry_run", tenant, work);
  const problems = timed(() => problemsOfInput(definition, input));
  if (problems.length > 0) return { kind: "input_invalid", problems };
  const settings = await settingsOf(engine, tenant);
  if (settings === undefined)
    return { kind: "store_unavailable", cause: "the tenant's settings cannot be read" };
  const planned = timed(() => planGates(definition, { input }, settings, queueDefaults(engine.config)));
  if (planned.kind !== "planned") return planned;
  const { plan } = planned;
  const nowMs = engine.storeTime.nowMs();
  const limits = engine.terms.commit;
  const play = playDryRun(definition, { tenant, input, outputs, nowMs }, limits);
  return {
    kind: "played",
    ...(plan === undefined ? {} : { plan }),
    play: await engine.dryRuns.take(tenant, { next: () => timed(() => play.next()) }),
  };
}
