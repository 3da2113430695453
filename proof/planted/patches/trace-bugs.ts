// The planted bugs in tracing.
import type { TextPatch } from "../planted-bug.ts";

const flows = "test/unit/flow-traces.test.ts";
const whole = "test/e2e/tracing.test.ts";

export const plantedTraceBugs: readonly TextPatch[] = [
  {
    name: "trace-lost-by-the-inbox",
    what: "a run that begins with its inbox, as large ones and child runs do, forgets its trace: their workers begin traces of their own",
    edits: [
      {
        file: "src/domain/engine/apply-entry.ts",
        find: "  if (known?.traceparent !== undefined) draft.run.traceparent = known.traceparent;\n",
        replace: "",
      },
    ],
    tests: [flows],
  },
  {
    name: "trace-lost-in-redis",
    what: "the text of a job in Redis leaves out its trace: workers that claim it later are not told",
    edits: [
      {
        file: "src/adapters/redis/job-format.ts",
        find: "requires, deadlineAtMs, turn, traceparent };",
        replace: "requires, deadlineAtMs, turn, traceparent: traceparent && undefined };",
      },
    ],
    tests: [whole],
  },
  {
    name: "trace-of-the-request",
    what: "results that are reported together all go into the trace of the request that brings them",
    edits: [
      {
        file: "src/gateway/handlers/job-handlers.ts",
        find: "readTraceparent(item.traceparent) ?? request.traceparent",
        replace: "request.traceparent ?? readTraceparent(item.traceparent)",
      },
    ],
    tests: [whole],
  },
  {
    name: "spans-for-strangers",
    what: "a request has a span before its key is checked: anybody can have spans made at will",
    edits: [
      {
        file: "src/gateway/responder.ts",
        find: `  const authentication = authenticateRequest(`,
        replace: `  const { operation, head } = exchange;
  exchange.span = startRequestSpan(service.ports, operation, head.headers, "nobody" as never);
  const authentication = authenticateRequest(`,
      },
      {
        file: "src/gateway/responder.ts",
        find: `  const { operation, head } = exchange;
  exchange.span = startRequestSpan(service.ports, operation, head.headers, key.tenant);
`,
        replace: "",
      },
    ],
    tests: [whole],
  },
];
