// Planted bugs in the end of a process: requests that break, and work that is dropped, while servers are restarted.
import type { TextPatch } from "../planted-bug.ts";

const ending = "src/gateway/connections.ts";
const requests = "src/gateway/http-requests.ts";
const tests = ["test/e2e/gateway-stop.test.ts"];

export const plantedStopBugs: readonly TextPatch[] = [
  {
    name: "idle-connections-closed-at-once",
    what: "a gateway that stops closes kept connections at once: requests already on their way are reset",
    edits: [
      {
        file: ending,
        find: "await until(clock, Math.min(lingerMs, drainMs), () => connections.size === 0);",
        replace: "await until(clock, Math.min(lingerMs, 0), () => connections.size === 0);",
      },
    ],
    tests,
  },
  {
    name: "half-read-request-cut",
    what: "a request of which a part of the head has come is cut a quarter of a second after the last answer",
    edits: [
      {
        file: ending,
        find: "return bytesRead > 0 && writableLength === 0;",
        replace: "return bytesRead > 0 && writableLength < 0;",
      },
    ],
    tests,
  },
  {
    name: "linger-without-clients",
    what: "a stop waits its whole time although nobody is connected",
    edits: [{ file: ending, find: "() => connections.size === 0", replace: "() => connections.size < 0" }],
    tests,
  },
  {
    name: "close-left-unsaid",
    what: "answers of a gateway that stops do not tell the client to close the connection",
    edits: [
      {
        file: requests,
        find: "if (service.isDraining()) response.shouldKeepAlive = false;",
        replace: "",
      },
    ],
    tests,
  },
  {
    name: "engine-leaves-at-once",
    what: "a process that stops does not finish the runs that it owns: they wait for the end of its lock",
    edits: [
      {
        file: "src/control/control-process.ts",
        find: "      await engine.background.idle();\n",
        replace: "",
      },
    ],
    tests: ["test/e2e/rolling-restart.test.ts"],
  },
];
