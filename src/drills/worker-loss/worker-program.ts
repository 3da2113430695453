// A worker of the drill as a program of its own, so that it can be killed and paused: prints each note as one line of JSON.
import { runtime } from "../../sdk/runtime.ts";
import type { WorkNote } from "../load/ledger.ts";
import { type RecordingWorkerOptions, startRecordingWorker } from "../load/steady-load.ts";

const options = JSON.parse(process.argv[2] ?? "{}") as RecordingWorkerOptions;
// Written at once: output is complete whenever the process is killed.
const print = (line: { readonly ready: true } | { readonly note: WorkNote }) =>
  void process.stdout.write(`${JSON.stringify(line)}\n`);
const worker = startRecordingWorker(options, (note) => print({ note }));
runtime.onStopSignal(() => void worker.stop({ graceMs: 0 }));
print({ ready: true });
await worker.finished;
