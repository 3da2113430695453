// Brings an entry to a run: applied at once, handed to the run's owner, or taken up by this process as the new owner.

import type { Approval } from "../../domain/approval.ts";
import type { NewEntry } from "../../domain/inbox.ts";
import type { LockToken } from "../../domain/lock.ts";
import type { RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { DeliveryRefusal } from "../../ports/run-operations.ts";
import type { Answer } from "../../ports/store.ts";
import { ask } from "../ask-until-known.ts";
import { instantOf } from "../locks/lease-target.ts";
import { afterCommit, countFate, remember } from "./after-commit.ts";
import { drainOwned, wakeRelatives } from "./drain-run.ts";
import type { Engine } from "./engine.ts";
import { propose } from "./propose.ts";

export type DeliveryRequest = {
  readonly tenant: TenantId;
  readonly runId: RunId;
  readonly entry: NewEntry;
  readonly credential?: string;
};

export type DeliveryAnswer =
  /** Durable: it was applied, or its owner applies it. */
  | { readonly kind: "accepted" }
  | { readonly kind: "refused"; readonly because: DeliveryRefusal; readonly approval?: Approval }
  | { readonly kind: "unavailable"; readonly cause: string }
  | { readonly kind: "unknown"; readonly cause: string };

/** Strategy `handoff`: whoever finds the run busy is finished, its owner will do it. */
export async function deliverEntry(engine: Engine, request: DeliveryRequest): Promise<DeliveryAnswer> {
  const { ports } = engine;
  const { tenant, runId, entry } = request;
  const proposed = propose(engine, runId, entry);
  const terms = engine.terms.locks.handoff;
  const token = ports.random.token() as LockToken;
  const since = instantOf(ports.clock);
  const take = { token, instance: ports.instance, ttlMs: terms.ttlMs };
  try {
    const answer = await ask(engine, "deliver", {
      ...request,
      take,
      whenBusy: "append",
      records: [],
      ...(proposed === undefined ? {} : { proposal: proposed.proposal }),
    });
    if (answer.kind === "applied" && proposed !== undefined) {
      const { change, commitId } = proposed.proposal;
      const { claims, storeTimeMs, version } = answer;
      countFate(ports.metrics, entry, "applied");
      remember(engine, proposed.run, change, { version, commitId });
      afterCommit(engine, { tenant, runId, change, claims, storeTimeMs, preclaim: proposed.preclaim });
      wakeRelatives(engine, proposed.run, change);
    }
    if (answer.kind === "delivered" && answer.run.kind === "owned") {
      const { run } = answer;
      const grant = { kind: "acquired", token, fence: run.fence, since } as const;
      engine.background.run("draining a run", () => drainOwned(engine, { tenant, runId, terms, grant }, run));
    }
    return deliveryAnswer(engine, entry, answer);
  } finally {
    proposed?.withdraw();
  }
}

/** Refusals are final: acknowledged once, counted by what was refused and why. */
export function deliveryAnswer(engine: Engine, entry: NewEntry, answer: Answer<"deliver">): DeliveryAnswer {
  const { metrics } = engine.ports;
  switch (answer.kind) {
    case "applied":
      return { kind: "accepted" };
    case "delivered":
      if (answer.run.kind === "handed_over") metrics.count("inbox_handoffs_total", {});
      return { kind: "accepted" };
    case "refused":
      metrics.count("inbox_entries_total", { kind: entry.kind, fate: answer.because });
      return answer.approval === undefined
        ? { kind: "refused", because: answer.because }
        : { kind: "refused", because: answer.because, approval: answer.approval };
    case "run_busy":
      return { kind: "unavailable", cause: `run lock busy: held by ${answer.instance}` };
    case "unavailable":
    case "unknown":
      return { kind: answer.kind, cause: answer.cause };
  }
}
