// A lock whose every grant has a larger fence than all before it, and which nobody else gets while its lease cannot have run out.
import type { Model } from "./linearize.ts";

export type LockState = {
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
