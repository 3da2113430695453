// Measures how long the thread that asks is held up at a time, in CPU time: what other processes do meanwhile does not count.
import { readFileSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";

/** CPU time of this thread so far. */
export function threadTimeMs(): number {
  return Number(readFileSync("/proc/thread-self/schedstat", "utf8").split(" ")[0]) / 1e6;
}

/** The longest turn of the event loop while the work goes on. */
export async function longestTurnMs(work: () => Promise<unknown>): Promise<number> {
  let isOver = false;
  let longest = 0;
  const watching = (async () => {
    for (let before = threadTimeMs(); !isOver; ) {
      await nextTurn();
      const after = threadTimeMs();
      longest = Math.max(longest, after - before);
      before = after;
    }
  })();
  try {
    await work();
  } finally {
    isOver = true;
    await watching;
  }
  return longest;
}
