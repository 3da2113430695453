// The thread of the clients: runs the crowds that it is sent, so that their work does not keep the server's loop busy.
import { parentPort } from "node:worker_threads";
import { type CrowdAsked, type CrowdSeen, crowd } from "./crowd.ts";

export type FromCrowdThread =
  | { readonly kind: "seen"; readonly seen: CrowdSeen }
  | { readonly kind: "broken"; readonly error: Error };

const post = (message: FromCrowdThread) => parentPort?.postMessage(message);

parentPort?.on("message", (asked: CrowdAsked) => {
  crowd(asked).then(
    (seen) => post({ kind: "seen", seen }),
    (error: unknown) => post({ kind: "broken", error: error as Error }),
  );
});
