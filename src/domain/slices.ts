// Work on what callers send that can be cut: a generator that yields wherever other work may go first.

/** One slice takes a few milliseconds at most; what it yields means nothing. */
export type Sliced<Value> = Generator<undefined, Value, undefined>;

/** For what is small, and for threads where nobody else waits. */
export function atOnce<Value>(work: Sliced<Value>): Value {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}

/** Lets everybody else's work go first between two slices. What fits into one slice is not interrupted. */
export async function inSlices<Value>(
  clock: { yield(): Promise<void> },
  work: Sliced<Value>,
): Promise<Value> {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
    await clock.yield();
  }
}
