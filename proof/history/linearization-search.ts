// The place of a search for a linearization: which operations are still to be put in order, and which of them may come next.
import type { Model, TimedOperation } from "./linearize.ts";
import { scatter } from "./scatter.ts";

/** An operation that comes next: an answered one by its place, an unanswered one by its effect. */
export type Choice<State> = {
  readonly kind: "answered" | "unanswered";
  readonly index: number;
  readonly state: State;
};

type Frontier = {
  /** Tells apart any two sets of operations that are still to come. */
  readonly name: string;
  /** The answered operations that were invoked before the first of those that are left was answered. */
  readonly candidates: readonly number[];
  /** The place of that first answer. */
  readonly answerAt: number;
};

type Search<State> = {
  /** Every answered operation has its place. */
  isDone(): boolean;
  frontier(): Frontier;
  choices(state: State, frontier: Frontier): readonly Choice<State>[];
  /** Both say how many answered operations it was: one or none. */
  take(choice: Choice<State>): 0 | 1;
  undo(choice: Choice<State>): 0 | 1;
};

/** Invocations and answers in the order of time, linked so that an operation is taken out and put back at no cost. */
type Timeline = {
  readonly next: Int32Array;
  readonly previous: Int32Array;
  readonly operationAt: Int32Array;
  readonly callAt: Int32Array;
  /** 0 for an operation without an answer. */
  readonly answerAt: Int32Array;
};

/** Unanswered operations of one effect; the one that was invoked first takes effect first. */
type Effect<Operation> = {
  readonly operation: Operation;
  readonly callsAt: number[];
  used: number;
};

export function createSearch<State, Operation, Answer>(
  model: Model<State, Operation, Answer>,
  operations: ReadonlyArray<TimedOperation<Operation, Answer>>,
): Search<State> {
  const timeline = layOut(operations);
  const { next, operationAt, callAt, answerAt } = timeline;
  const effects = effectsOf(model, operations, timeline);
  let [usedHigh, usedLow] = [0, 0];

  const use = (index: number, change: 1 | -1): void => {
    const effect = effects[index] as Effect<Operation>;
    const count = change === 1 ? effect.used : effect.used - 1;
    effect.used += change;
    usedHigh ^= scatter(index * 2, count);
    usedLow ^= scatter(index * 2 + 1, count);
  };

  return {
    isDone: () => next[0] === 0,
    frontier() {
      const candidates: number[] = [];
      let at = next[0] as number;
      while (callAt[operationAt[at] as number] === at) {
        candidates.push(operationAt[at] as number);
        at = next[at] as number;
      }
      // Those before the first answer that are left, and that answer's place, say which have gone: all others before it.
      return { name: `${at} ${candidates.join()} ${usedHigh},${usedLow}`, candidates, answerAt: at };
    },
    choices(state, { candidates, answerAt: firstAnswerAt }) {
      const found: Choice<State>[] = [];
      const asked = candidates.map((index) => {
        const { operation, completion } = operations[index] as TimedOperation<Operation, Answer>;
        const answer = (completion as { readonly answer: Answer }).answer;
        const states = model.step(state, operation, answer);
        return { index, operation, answer, states, isPossible: states.length > 0 };
      });
      // What is possible and never changes anything may as well come now: no other order allows more.
      const free = asked.find((each) => each.isPossible && model.isReading(each.operation, each.answer));
      if (free !== undefined) return [{ kind: "answered", index: free.index, state }];
      // An operation that was answered first had to take effect first.
      asked.sort((left, right) => (answerAt[left.index] as number) - (answerAt[right.index] as number));
      for (const { index, states } of asked) {
        for (const after of states) found.push({ kind: "answered", index, state: after });
      }
      for (const [index, { operation, callsAt, used }] of effects.entries()) {
        if ((callsAt[0] as number) > firstAnswerAt) break;
        const isThere = used < callsAt.length && (callsAt[used] as number) < firstAnswerAt;
        if (!isThere) continue;
        const matters = asked.some((candidate) =>
          model.mattersTo === undefined
            ? !candidate.isPossible
            : model.mattersTo(state, operation, candidate),
        );
        if (!matters) continue;
        for (const after of model.step(state, operation, undefined)) {
          if (after !== state) found.push({ kind: "unanswered", index, state: after });
        }
      }
      return found;
    },
    take({ kind, index }) {
      if (kind === "answered") lift(timeline, index);
      else use(index, 1);
      return kind === "answered" ? 1 : 0;
    },
    undo({ kind, index }) {
      if (kind === "answered") putBack(timeline, index);
      else use(index, -1);
      return kind === "answered" ? 1 : 0;
    },
  };
}

function layOut(operations: ReadonlyArray<TimedOperation<unknown, unknown>>): Timeline {
  const events = operations.flatMap(({ invokedAtUs, completion }, index) => [
    { index, atUs: invokedAtUs, isAnswer: false },
    ...(completion === undefined ? [] : [{ index, atUs: completion.atUs, isAnswer: true }]),
  ]);
  // At the same moment the invocations come first: neither of two such operations is known to be the earlier one.
  events.sort((left, right) => left.atUs - right.atUs || Number(left.isAnswer) - Number(right.isAnswer));
  const timeline: Timeline = {
    next: new Int32Array(events.length + 1),
    previous: new Int32Array(events.length + 1),
    operationAt: new Int32Array(events.length + 1).fill(-1),
    callAt: new Int32Array(operations.length),
    answerAt: new Int32Array(operations.length),
  };
  let last = 0;
  for (const [place, { index, isAnswer }] of events.entries()) {
    const at = place + 1;
    if (isAnswer) timeline.answerAt[index] = at;
    else timeline.callAt[index] = at;
    if (operations[index]?.completion === undefined) continue;
    timeline.operationAt[at] = index;
    timeline.next[last] = at;
    timeline.previous[at] = last;
    last = at;
  }
  // Place 0 is both ends.
  timeline.next[last] = 0;
  timeline.previous[0] = last;
  return timeline;
}

function effectsOf<State, Operation, Answer>(
  model: Model<State, Operation, Answer>,
  operations: ReadonlyArray<TimedOperation<Operation, Answer>>,
  { callAt }: Timeline,
): Effect<Operation>[] {
  const effects = new Map<string, Effect<Operation>>();
  for (const [index, { operation, completion }] of operations.entries()) {
    if (completion !== undefined) continue;
    const name = model.effectOf(operation);
    const effect = effects.get(name) ?? { operation, callsAt: [], used: 0 };
    effect.callsAt.push(callAt[index] as number);
    effects.set(name, effect);
  }
  for (const { callsAt } of effects.values()) callsAt.sort((left, right) => left - right);
  return [...effects.values()].sort(
    (left, right) => (left.callsAt[0] as number) - (right.callsAt[0] as number),
  );
}

function lift({ next, previous, callAt, answerAt }: Timeline, index: number): void {
  for (const at of [callAt[index] as number, answerAt[index] as number]) {
    next[previous[at] as number] = next[at] as number;
    previous[next[at] as number] = previous[at] as number;
  }
}

/** In the opposite order of `lift`: each still knows its neighbours. */
function putBack({ next, previous, callAt, answerAt }: Timeline, index: number): void {
  for (const at of [answerAt[index] as number, callAt[index] as number]) {
    next[previous[at] as number] = at;
    previous[next[at] as number] = at;
  }
}
