// Says on standard error how far a benchmark is: one changing line on a terminal, a line now and then in a log file.
export type Progress = {
  step(label: string): void;
  /** Clears the changing line before something else is printed. */
  end(): void;
};

/** In a log file, often enough to see that it lives. */
const lineEveryMs = 5_000;

export function createProgress(steps: number): Progress {
  const startMs = performance.now();
  const { stderr } = process;
  let step = 0;
  let lastLineMs = Number.NEGATIVE_INFINITY;
  return {
    step(label) {
      step += 1;
      const nowMs = performance.now();
      const line = `[${step}/${steps}, ${((nowMs - startMs) / 1000).toFixed(0)} s] ${label}`;
      if (stderr.isTTY) {
        stderr.write(`\r\u001b[K${line}`);
      } else if (nowMs - lastLineMs >= lineEveryMs) {
        lastLineMs = nowMs;
        stderr.write(`${line}\n`);
      }
    },
    end() {
      if (stderr.isTTY) stderr.write("\r\u001b[K");
    },
  };
}
