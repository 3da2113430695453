// A thread in place of the one that judges definitions: does as the definition says. Plain JavaScript starts in 50 ms.
import { parentPort } from "node:worker_threads";

const acts = {
  "runs for ever": () => {
    for (;;);
  },
  throws: () => {
    throw new Error("planted");
  },
  exits: () => process.exit(1),
  "is judged": () =>
    parentPort.postMessage({ kind: "verdict", verdict: { kind: "workflow_invalid", problems: [] } }),
};

parentPort.on("message", ({ sent }) => acts[sent.does]());
parentPort.postMessage({ kind: "ready" });
