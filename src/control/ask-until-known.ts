// Repeats a store call until its outcome is known: what makes `unknown` decidable instead of a guess.
import { waitDelayMs } from "../domain/lock.ts";
import type { Ports } from "../ports/ports.ts";
import type { Answer, OperationName, OutcomeOf, RequestOf, StoreMethods, Unknown } from "../ports/store.ts";

export type AskLimits = { readonly callTimeoutMs: number; readonly budgetMs: number };

/** What it takes to ask the store: its operation, and how long that may take unless a flow says otherwise. */
export type Asking<Name extends OperationName> = {
  readonly ports: Retrying & { readonly store: Pick<StoreMethods, Name> };
  readonly terms: { readonly store: AskLimits };
};

type Retrying = Pick<Ports, "clock" | "random" | "metrics">;

/**
 * Refusals that an earlier try, still on its way, could turn into an effect. Such a refusal is final only once the store's
 * clock has passed that try's notAfter; every other outcome is final at once.
 */
const openRefusals: { readonly [Name in OperationName]?: ReadonlyArray<OutcomeOf<Name>["kind"]> } = {
  admit: [
    "max_concurrent_runs_reached",
    "queue_full",
    "start_rate_exceeded",
    "budget_exhausted",
    "tenant_stopped",
    "idempotency_key_in_flight",
    // A key can be freed meanwhile, by its expiry or at the quota.
    "idempotency_key_reused",
    "replayed",
    "version_conflict",
    "quota_reached",
    "idempotency_quota_reached",
    "unauthenticated",
  ],
  createRun: [
    "max_concurrent_runs_reached",
    "queue_full",
    "start_rate_exceeded",
    "budget_exhausted",
    "tenant_stopped",
    "version_conflict",
    "quota_reached",
    "idempotency_quota_reached",
    "unauthenticated",
  ],
  reserve: ["idempotency_key_in_flight", "idempotency_key_reused", "replayed"],
  putDocument: ["unauthenticated", "tenant_removed"],
  removeDocument: ["unauthenticated"],
  setTenant: ["unauthenticated"],
  deleteRun: ["unauthenticated"],
  moveQueued: ["unauthenticated"],
  breakLock: ["unauthenticated"],
};

const betweenTries = { kind: "exponential", baseMs: 10, maxMs: 160 } as const;

/** Sends the same request until its outcome is known. */
export function ask<Name extends OperationName>(
  { ports, terms }: Asking<NoInfer<Name>>,
  name: Name,
  request: RequestOf<Name>,
  limits: AskLimits = terms.store,
): Promise<Answer<Name>> {
  const methods: Pick<StoreMethods, Name> = ports.store;
  const operation: StoreMethods[Name] = methods[name];
  return askUntilKnown(ports, name, limits, (deadlineMs) => operation(request, { deadlineMs }));
}

/**
 * `send` makes one try with the identity that makes the call repeatable. The answer is `unknown` only when the budget is
 * spent, and `unavailable` only when no try can have had an effect.
 */
export async function askUntilKnown<Name extends OperationName>(
  ports: Retrying,
  name: Name,
  limits: AskLimits,
  send: (deadlineMs: number) => Promise<Answer<Name>>,
): Promise<Answer<Name>> {
  const startedMs = ports.clock.monotonicMs();
  const answer = await send(Math.max(1, Math.min(limits.callTimeoutMs, limits.budgetMs)));
  // Nearly always: what is definite at the first try is final.
  if (answer.kind !== "unknown") return answer;
  return askAgain(ports, { name, limits, send, startedMs }, answer);
}

type Asked<Name extends OperationName> = {
  readonly name: Name;
  readonly limits: AskLimits;
  readonly startedMs: number;
  send(deadlineMs: number): Promise<Answer<Name>>;
};

async function askAgain<Name extends OperationName>(
  { clock, random, metrics }: Retrying,
  { name, limits, send, startedMs }: Asked<Name>,
  first: Unknown,
): Promise<Answer<Name>> {
  const leftMs = () => limits.budgetMs - (clock.monotonicMs() - startedMs);
  let answer: Answer<OperationName> = first;
  let openUntilMs = first.notAfterMs;
  for (let tries = 1; ; tries += 1) {
    let pauseMs = waitDelayMs("jitter", betweenTries, tries - 1, random.fraction());
    if (answer.kind === "unknown") {
      metrics.count("unknown_outcomes_total", { operation: name });
      openUntilMs = Math.max(openUntilMs, answer.notAfterMs);
    } else if (answer.kind !== "unavailable") {
      const open = isOpen(name, answer.kind);
      if (!open || answer.storeTimeMs > openUntilMs) return answer as Answer<Name>;
      pauseMs = openUntilMs - answer.storeTimeMs + 1;
    }
    if (leftMs() <= pauseMs) {
      return { kind: "unknown", cause: `still unknown after ${tries} tries`, notAfterMs: openUntilMs };
    }
    await clock.sleep(pauseMs);
    answer = (await send(Math.max(1, Math.min(limits.callTimeoutMs, leftMs())))) as Answer<OperationName>;
  }
}

/** An entry is refused in many ways, and accepted in two. */
function isOpen(name: OperationName, kind: string): boolean {
  if (name === "deliver") return kind !== "delivered" && kind !== "applied";
  return (openRefusals[name] as readonly string[] | undefined)?.includes(kind) ?? false;
}
