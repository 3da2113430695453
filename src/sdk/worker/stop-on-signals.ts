// Stops a worker in good order when the operating system asks the process to end.
import { type Runtime, runtime as system } from "../runtime.ts";
import type { StopOptions, StopReport, Worker } from "./worker.ts";

/**
 * On SIGTERM or SIGINT the worker stops; the process ends by itself when nothing else keeps it. Resolves to the report of the
 * stop, and listens no longer from then on: a second signal ends the process at once, as ever.
 */
export function stopOnSignals(
  worker: Pick<Worker, "stop">,
  options: StopOptions = {},
  runtime: Pick<Runtime, "onStopSignal"> = system,
): Promise<StopReport> {
  return new Promise((resolve, reject) => {
    const stopListening = runtime.onStopSignal(() => {
      stopListening();
      worker.stop(options).then(resolve, reject);
    });
  });
}
