// Starts a worker of the drill as a process of its own, which can be killed and paused.
import { extname, join } from "node:path";
import { runtime } from "../../sdk/runtime.ts";
import type { WorkNote } from "../load/ledger.ts";
import type { RecordingWorkerOptions } from "../load/recording-worker.ts";
import { type ChildProgram, startChildProgram } from "../target/child-program.ts";

export type WorkerProcess = ChildProgram & { readonly name: string };

export type WorkerProcessOptions = {
  readonly worker: RecordingWorkerOptions;
  readonly url: string;
  readonly apiKey: string;
  note(note: WorkNote): void;
};

const program = join(import.meta.dirname, `worker-program${extname(import.meta.filename)}`);
const readyWithinMs = 30_000;

export async function startWorkerProcess({
  worker,
  url,
  apiKey,
  note,
}: WorkerProcessOptions): Promise<WorkerProcess> {
  let isReady = () => {};
  const child = startChildProgram({
    args: [program, JSON.stringify(worker)],
    environment: { INTERLOCK_URL: url, INTERLOCK_API_KEY: apiKey },
    hear(line) {
      const message = read(line);
      if (message?.note !== undefined) note(message.note);
      if (message?.ready === true) isReady();
    },
  });
  await new Promise<void>((resolve, reject) => {
    const cancel = runtime.timer(readyWithinMs, () => {
      void child.end("SIGKILL");
      reject(new Error(`the worker did not start:\n${child.output()}`));
    });
    isReady = () => {
      cancel();
      resolve();
    };
    void child.ended.then(() => {
      cancel();
      reject(new Error(`the worker ended:\n${child.output()}`));
    });
  });
  return { ...child, name: worker.name };
}

/** What is no JSON is a warning of the runtime's. */
function read(line: string): { readonly ready?: true; readonly note?: WorkNote } | undefined {
  return line.startsWith("{") ? (JSON.parse(line) as { readonly note?: WorkNote }) : undefined;
}
