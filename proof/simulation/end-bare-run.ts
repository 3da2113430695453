// Ends a run without a workflow under its run lock, as an owner of any risk class would: load, commit, and one true answer.
import type { Config } from "../../src/config.ts";
import { type AskLimits, askUntilKnown } from "../../src/control/ask-until-known.ts";
import { runLockTerms } from "../../src/control/locks/lease-terms.ts";
import { type Lease, withLease } from "../../src/control/locks/with-lease.ts";
import type { RiskClass } from "../../src/domain/lock.ts";
import { isTerminal, type RunId, type TerminalStatus } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { Ports } from "../../src/ports/ports.ts";
import { bareCommit } from "./bare-run.ts";

type EndRequest = {
  readonly tenant: TenantId;
  readonly runId: RunId;
  readonly status: TerminalStatus;
  readonly risk: RiskClass;
  /** Recognises this end among all others. */
  readonly commitId: string;
};

export type EndAnswer =
  | { readonly kind: "ended"; readonly status: TerminalStatus }
  | { readonly kind: "already_ended"; readonly status: TerminalStatus }
  | { readonly kind: "not_found" }
  /** Another owner holds the run, took it over, or committed in between. */
  | { readonly kind: "busy" }
  | { readonly kind: "unavailable"; readonly cause: string }
  /** It may have ended; asking again finds out. */
  | { readonly kind: "unknown"; readonly cause: string };

export async function endBareRun(
  ports: Ports,
  config: Config,
  request: EndRequest,
  signal?: AbortSignal,
): Promise<EndAnswer> {
  const { tenant, runId, risk } = request;
  const terms = runLockTerms(config, risk, "wait");
  const limits = { callTimeoutMs: terms.callTimeoutMs, budgetMs: 2 * terms.callTimeoutMs };
  const target = { tenant, lock: { namespace: "run", name: runId } } as const;
  const outcome = await withLease(
    ports,
    target,
    terms,
    (lease) => endUnder(ports, lease, limits, request),
    signal,
  );
  switch (outcome.kind) {
    case "finished":
      return outcome.value;
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

async function endUnder(
  ports: Ports,
  lease: Lease,
  limits: AskLimits,
  request: EndRequest,
): Promise<EndAnswer> {
  const { tenant, runId, status, commitId } = request;
  const load = () =>
    askUntilKnown(ports, "loadRun", limits, (deadlineMs) =>
      ports.store.loadRun({ tenant, runId, records: [] }, { deadlineMs }),
    );
  const found = await load();
  if (found.kind === "not_found") return { kind: "not_found" };
  if (found.kind !== "run") return { kind: "unavailable", cause: found.cause };
  if (isTerminal(found.header.status)) return { kind: "already_ended", status: found.header.status };
  const commit = bareCommit({ tenant, runId, status, commitId, expectedVersion: found.header.version });
  const answer = await askUntilKnown(ports, "commit", limits, (deadlineMs) =>
    lease.write("commit", commit, deadlineMs),
  );
  switch (answer.kind) {
    case "committed":
      return { kind: "ended", status };
    case "stale_version": {
      const now = await load();
      const ended = now.kind === "run" && isTerminal(now.header.status);
      return ended
        ? { kind: "already_ended", status: now.header.status as TerminalStatus }
        : { kind: "busy" };
    }
    case "stale_fence":
      return { kind: "busy" };
    case "not_found":
      return { kind: "not_found" };
    case "tree_full":
      throw new Error("a commit without children fits every tree");
    case "unavailable":
    case "unknown":
      return { kind: answer.kind, cause: answer.cause };
  }
}
