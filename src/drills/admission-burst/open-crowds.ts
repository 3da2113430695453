// Starts the thread of the clients and asks it for one crowd after the other.
import { Worker } from "node:worker_threads";
import type { CrowdAsked, CrowdSeen } from "./crowd.ts";
import type { FromCrowdThread } from "./crowd-thread.ts";

export type Crowds = {
  /** One at a time. Rejects when the thread breaks, and with the signal's reason when the user wants to stop. */
  run(asked: CrowdAsked, signal: AbortSignal): Promise<CrowdSeen>;
  close(): Promise<void>;
};

export function openCrowds(): Crowds {
  const thread = startThread();
  let hear = (_message: FromCrowdThread) => {};
  thread.on("message", (message: FromCrowdThread) => hear(message));
  thread.on("error", (error) => hear({ kind: "broken", error }));
  return {
    async run(asked, signal) {
      signal.throwIfAborted();
      const stop = () => hear({ kind: "broken", error: signal.reason as Error });
      signal.addEventListener("abort", stop);
      try {
        const received = new Promise<FromCrowdThread>((resolve) => {
          hear = resolve;
        });
        thread.postMessage(asked);
        const message = await received;
        if (message.kind === "broken") throw message.error;
        return message.seen;
      } finally {
        signal.removeEventListener("abort", stop);
      }
    },
    async close() {
      await thread.terminate();
    },
  };
}

/** As the embedded store starts its own: from source, a thread has to load TypeScript by itself. */
function startThread(): Worker {
  const isCompiled = import.meta.url.endsWith(".js");
  const program = new URL(isCompiled ? "./crowd-thread.js" : "./crowd-thread.ts", import.meta.url);
  if (isCompiled) return new Worker(program);
  const loader = import.meta.resolve("tsx/esm/api");
  const bootstrap = `import("${loader}").then(({ register }) => { register(); return import("${program.href}"); })`;
  return new Worker(bootstrap, { eval: true, execArgv: [] });
}
