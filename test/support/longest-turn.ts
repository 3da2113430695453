// How long this process was held up at most while something went on, in CPU time: other programs on the machine do not count.

export type Watched<Result> = { readonly result: Result; readonly longestMs: number };

/** Counts from one turn of the event loop to the next. `isDone` is true once the work has ended. */
export async function longestTurnMs<Result>(
  work: (isDone: () => boolean) => Promise<Result>,
): Promise<Watched<Result>> {
  let done = false;
  let longestMs = 0;
  let before = process.cpuUsage();
  const turns = (async () => {
    while (!done) {
      await new Promise((resolve) => setImmediate(resolve));
      const used = process.cpuUsage(before);
      before = process.cpuUsage();
      longestMs = Math.max(longestMs, (used.user + used.system) / 1_000);
    }
  })();
  const result = await work(() => done).finally(() => {
    done = true;
  });
  await turns;
  return { result, longestMs };
}
