// Fences of one lock grow from grant to grant, and the grants and releases could have happened one after another.
import { type Checked, type Finding, standingOf, type Undecided } from "./finding.ts";
import { groupBy } from "./group-by.ts";
import { answeredAtUs, type Call, type History, okAnswer } from "./history.ts";
import { linearize, type Model, type TimedOperation } from "./linearize.ts";

type Acquire = Call<"acquire">;
type Grant = { readonly call: Acquire; readonly fence: number };

export function checkLocks(history: History, stepsMax?: number): Checked {
  const nameOf = ({ operation }: Call<"acquire" | "release">) => `${operation.tenant} ${operation.lock}`;
  const releases = groupBy(history.callsOf("release"), nameOf);
  const findings: Finding[] = [];
  const undecided: Undecided[] = [];
  for (const [name, acquires] of groupBy(history.callsOf("acquire"), nameOf)) {
    const released = releases.get(name) ?? [];
    const wrong = checkFences(name, grantsOf(acquires), released);
    findings.push(...wrong);
    // Grants with wrong fences fit no order: that is told once.
    if (wrong.length > 0) continue;
    const checked = checkOrder(history, name, [...acquires, ...released], stepsMax);
    findings.push(...checked.findings);
    undecided.push(...checked.undecided);
  }
  return { findings, undecided };
}

function grantsOf(acquires: readonly Acquire[]): Grant[] {
  return acquires.flatMap((call) => {
    const answer = okAnswer(call, "lock");
    return answer === undefined ? [] : [{ call, fence: answer.fence }];
  });
}

/** Promised at every level: a store that has lost grants gives out fences above them. */
function checkFences(
  name: string,
  grants: readonly Grant[],
  releases: readonly Call<"release">[],
): Finding[] {
  const answered = [...grants].sort((left, right) => answeredAtUs(left.call) - answeredAtUs(right.call));
  const findings: Finding[] = [];
  const found = (sentence: string, earlier: Grant, later: Grant) => {
    const records = [...earlier.call.records, ...later.call.records];
    findings.push({ invariant: "INV-11", standing: "promised", sentence, records });
  };
  const byFence = new Map<number, Grant>();
  let largest: Grant | undefined;
  let next = 0;
  for (const grant of grants) {
    const { call, fence } = grant;
    for (
      let done = answered[next];
      done && answeredAtUs(done.call) < call.invokedAtUs;
      done = answered[next]
    ) {
      if (largest === undefined || done.fence > largest.fence) largest = done;
      next += 1;
    }
    const same = byFence.get(fence);
    if (same === undefined) byFence.set(fence, grant);
    if (largest !== undefined && fence < largest.fence) {
      found(`lock ${name} was granted with fence ${fence} after fence ${largest.fence}`, largest, grant);
    } else if (same !== undefined && !isRepeated(same, grant, releases)) {
      found(`lock ${name} was granted twice with fence ${fence}`, same, grant);
    }
  }
  return findings;
}

/** A holder that asks again gets its own grant, unless it has given it back in between. */
function isRepeated(first: Grant, again: Grant, releases: readonly Call<"release">[]): boolean {
  if (first.call.client !== again.call.client) return false;
  return !releases.some(
    (release) =>
      release.operation.fence === first.fence &&
      release.completion.kind === "ok" &&
      answeredAtUs(release) < again.call.invokedAtUs,
  );
}

function checkOrder(
  history: History,
  name: string,
  calls: ReadonlyArray<Call<"acquire" | "release">>,
  stepsMax: number | undefined,
): Checked {
  const granted = new Set(calls.map((call) => okAnswer(call, "lock")?.fence));
  const firstUs = firstAskedUs(calls);
  const told = calls.flatMap((call) => {
    const { operation: asked } = call;
    // The release of a grant whose answer nobody recorded.
    if (asked.operation === "release" && !granted.has(asked.fence)) return [];
    const operation = timedOf(call, firstUs.get(call) ?? call.invokedAtUs);
    return operation === undefined ? [] : [{ call, operation }];
  });
  const operations = told.map(({ operation }) => operation);
  const order = linearize(lockModel, operations, stepsMax);
  if (order.kind === "linearizable") return { findings: [], undecided: [] };
  if (order.kind === "undecided") {
    const sentence = `the order of ${operations.length} grants and releases of lock ${name}`;
    return { findings: [], undecided: [{ invariant: "INV-13", sentence }] };
  }
  const records = order.stuckOn.flatMap((index) => told[index]?.call.records ?? []);
  const standing = standingOf(history, {
    fromUs: Number.NEGATIVE_INFINITY,
    toUs: Math.max(...order.stuckOn.map((index) => operations[index]?.completion?.atUs ?? 0)),
  });
  const sentence = `lock ${name} was granted while somebody else held it, or released by somebody else`;
  return { findings: [{ invariant: "INV-13", standing, sentence, records }], undecided: [] };
}

/**
 * When each was asked for the first time: a client that heard nothing asks again, and may be told of what its first try got
 * it long ago.
 */
function firstAskedUs(calls: ReadonlyArray<Call<"acquire" | "release">>): ReadonlyMap<Call, number> {
  const unheardUs = new Map<string, number>();
  const asked = new Map<Call, number>();
  for (const call of [...calls].sort((left, right) => left.invokedAtUs - right.invokedAtUs)) {
    if (call.operation.operation !== "acquire") continue;
    const sinceUs = unheardUs.get(call.client) ?? call.invokedAtUs;
    asked.set(call, sinceUs);
    if (call.completion.kind === "unknown") unheardUs.set(call.client, sinceUs);
    else unheardUs.delete(call.client);
  }
  return asked;
}

type TimedLockOperation = TimedOperation<LockOperation, LockAnswer>;

/** Refusals to grant tell nothing that could be held against anybody: a lock may be kept for the first who waits. */
function timedOf(call: Call<"acquire" | "release">, invokedAtUs: number): TimedLockOperation | undefined {
  const { client, operation, completion } = call;
  const answeredUs = answeredAtUs(call);
  if (operation.operation === "acquire") {
    const fence = okAnswer(call, "lock")?.fence;
    if (fence === undefined) return undefined;
    const { ttlMs } = operation;
    const mayExpireUs = ttlMs === undefined ? Number.NEGATIVE_INFINITY : invokedAtUs + ttlMs * 1000;
    return {
      operation: { kind: "acquire", client, mayExpireUs, answeredUs },
      invokedAtUs,
      completion: { atUs: answeredUs, answer: { kind: "granted", fence } },
    };
  }
  const released = { kind: "release", fence: operation.fence, answeredUs } as const;
  if (completion.kind === "unknown") return { operation: released, invokedAtUs };
  const isNotOwned = completion.kind === "fail" && completion.code === "lock_not_owned";
  if (completion.kind === "fail" && !isNotOwned) return undefined;
  const answer = { kind: isNotOwned ? "not_owned" : "released" } as const;
  return { operation: released, invokedAtUs, completion: { atUs: answeredUs, answer } };
}

type LockState = {
  /** The largest fence granted. */
  readonly fence: number;
  readonly holder: Holder | undefined;
};

type Holder = { readonly client: string; readonly mayExpireUs: number };

export type LockOperation =
  | {
      readonly kind: "acquire";
      readonly client: string;
      /** Before this moment a lease granted to it cannot have run out. */
      readonly mayExpireUs: number;
      readonly answeredUs: number;
    }
  | { readonly kind: "release"; readonly fence: number; readonly answeredUs: number };

export type LockAnswer =
  | { readonly kind: "granted"; readonly fence: number }
  | { readonly kind: "released" }
  | { readonly kind: "not_owned" };

export const lockModel: Model<LockState, LockOperation, LockAnswer> = {
  initial: { fence: 0, holder: undefined },
  step(state, operation, answer) {
    return operation.kind === "acquire"
      ? acquire(state, operation, answer)
      : release(state, operation, answer);
  },
  hash: ({ fence, holder }) =>
    holder === undefined ? `${fence}` : `${fence} ${holder.mayExpireUs} ${holder.client}`,
  isReading: (_operation, { kind }) => kind === "not_owned",
  effectOf: (operation) =>
    operation.kind === "release" ? `release ${operation.fence}` : `acquire ${operation.client}`,
};

/** One without an answer gave out a fence that nobody knows: it can refuse others, and explains no grant. */
function acquire(
  state: LockState,
  { client, mayExpireUs, answeredUs }: Extract<LockOperation, { readonly kind: "acquire" }>,
  answer: LockAnswer | undefined,
): readonly LockState[] {
  if (answer === undefined) return [state];
  if (answer.kind !== "granted") return [];
  const { holder } = state;
  // Asked again by its holder: the same grant.
  if (holder?.client === client && answer.fence === state.fence) return [state];
  const isFree = holder === undefined || holder.mayExpireUs <= answeredUs;
  return isFree && answer.fence > state.fence
    ? [{ fence: answer.fence, holder: { client, mayExpireUs } }]
    : [];
}

function release(
  state: LockState,
  { fence, answeredUs }: Extract<LockOperation, { readonly kind: "release" }>,
  answer: LockAnswer | undefined,
): readonly LockState[] {
  const isHeld = state.holder !== undefined && state.fence === fence;
  const free = { fence: state.fence, holder: undefined };
  if (answer === undefined) return [isHeld ? free : state];
  if (answer.kind === "released") return isHeld ? [free] : [];
  if (answer.kind === "granted") return [];
  return !isHeld || (state.holder?.mayExpireUs ?? 0) <= answeredUs ? [state] : [];
}
