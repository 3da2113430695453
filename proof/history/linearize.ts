// Whether operations that overlapped, with the answers they got, could have happened one after another: Wing & Gong's search with memory.
import { type Choice, createSearch } from "./linearization-search.ts";

export type TimedOperation<Operation, Answer> = {
  readonly operation: Operation;
  readonly invokedAtUs: number;
  /** Absent when nothing is known: it may take effect at any time after its invocation, or never. */
  readonly completion?: { readonly atUs: number; readonly answer: Answer };
};

/** A sequential specification. */
export type Model<State, Operation, Answer> = {
  readonly initial: State;
  /**
   * Every state that may follow; none when the answer is impossible here. Without an answer: when it takes effect. The very same
   * state stands for "nothing changed".
   */
  step(state: State, operation: Operation, answer: Answer | undefined): readonly State[];
  /** Equal for equal states, and for no others. */
  hash(state: State): string;
  /** Whether an operation with this answer changes nothing, whatever the state: it may then come as soon as it can. */
  isReading(operation: Operation, answer: Answer): boolean;
  /** Equal for operations without an answer that do the same: which of them took effect then makes no difference. */
  effectOf(operation: Operation): string;
  /**
   * Whether an operation without an answer has to be tried before the candidate. The default is "when the candidate cannot happen
   * now"; it is right as long as one that could also come later leads to the same state then.
   */
  mattersTo?(state: State, unanswered: Operation, candidate: Candidate<Operation, Answer>): boolean;
};

export type Candidate<Operation, Answer> = {
  readonly operation: Operation;
  readonly answer: Answer;
  readonly isPossible: boolean;
};

type Linearization =
  | { readonly kind: "linearizable"; readonly steps: number }
  /** `stuckOn`: places of the operations of which one had to come next where the longest try ended. */
  | { readonly kind: "violation"; readonly steps: number; readonly stuckOn: readonly number[] }
  /** The budget ended first. */
  | { readonly kind: "undecided"; readonly steps: number };

type Frame<State> = {
  readonly choices: readonly Choice<State>[];
  next: number;
};

/** So many take 120 MB, and some ten seconds of one processor; a tenant of 20,000 operations in good order takes as many steps. */
const stepsMaxDefault = 1_000_000;

export function linearize<State, Operation, Answer>(
  model: Model<State, Operation, Answer>,
  operations: ReadonlyArray<TimedOperation<Operation, Answer>>,
  stepsMax = stepsMaxDefault,
): Linearization {
  const search = createSearch(model, operations);
  const seen = new Set<string>();
  const frames: Frame<State>[] = [];
  const taken: Choice<State>[] = [];
  let deepest = { answered: -1, candidates: [] as readonly number[] };
  let answered = 0;
  let state = model.initial;
  while (true) {
    if (search.isDone()) return { kind: "linearizable", steps: seen.size };
    const frontier = search.frontier();
    const key = `${frontier.name} ${model.hash(state)}`;
    if (!seen.has(key)) {
      if (seen.size >= stepsMax) return { kind: "undecided", steps: seen.size };
      seen.add(key);
      if (answered > deepest.answered) deepest = { answered, candidates: frontier.candidates };
      frames.push({ choices: search.choices(state, frontier), next: 0 });
    } else {
      // The same rest from the same state has been tried.
      const last = taken.pop();
      if (last !== undefined) answered -= search.undo(last);
    }
    let frame = frames.at(-1);
    while (frame !== undefined && frame.next >= frame.choices.length) {
      frames.pop();
      const last = taken.pop();
      if (last !== undefined) answered -= search.undo(last);
      frame = frames.at(-1);
    }
    const choice = frame?.choices[frame.next];
    if (frame === undefined || choice === undefined) {
      return { kind: "violation", steps: seen.size, stuckOn: deepest.candidates };
    }
    frame.next += 1;
    taken.push(choice);
    answered += search.take(choice);
    state = choice.state;
  }
}
