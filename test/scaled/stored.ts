// Inputs that meet what was stored before: a run's input and its schema, loops and lists that are played through, results that
// expressions read, runs of many steps that are shown.
import type { FuzzRequest } from "../fuzz/request.ts";
import type { MeasuredGateway } from "./gateway.ts";
import type { ScaledInput } from "./inputs.ts";
import { checks, type Definition, flows, named, type Stored, times } from "./stored-definitions.ts";

let saved = 0;

/** Saves it under a name of its own and gives the name; what is refused is asked for all the same. */
async function save(gateway: MeasuredGateway, definition: Definition): Promise<string> {
  saved += 1;
  const id = `scaled-${saved}`;
  await gateway.send(
    asked(gateway, "saveWorkflow", {
      role: "admin",
      target: "/api/v1/workflows",
      body: { ...definition, id },
    }),
  );
  return id;
}

type Asked = {
  readonly role: string;
  readonly method?: string;
  readonly target: string;
  readonly body?: unknown;
};

function asked(
  gateway: MeasuredGateway,
  operation: string,
  { role, method = "POST", target, body }: Asked,
): FuzzRequest {
  return {
    operation,
    how: "stored",
    method,
    target,
    headers: {
      "x-api-key": gateway.client.keys.ofRole(role),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    body: body === undefined ? undefined : Buffer.from(JSON.stringify(body)),
    isRouted: true,
  };
}

export function storedInputs(gateway: MeasuredGateway): readonly ScaledInput[] {
  const start = (id: string, body: unknown) =>
    asked(gateway, "startRun", { role: "operator", target: `/api/v1/workflows/${id}/runs`, body });
  const dryRun = (id: string, input: unknown) =>
    asked(gateway, "dryRunWorkflow", {
      role: "operator",
      target: `/api/v1/workflows/${id}/dry-run`,
      body: { input },
    });
  const scaled = (
    { kind, unit, largest, definition, input = () => ({}) }: Stored,
    operation: "startRun" | "dryRunWorkflow",
  ): ScaledInput => ({
    operation,
    place: "stored",
    kind: operation === "startRun" ? kind : `dry run, ${kind}`,
    unit,
    largest,
    settles: operation === "startRun",
    async request(count) {
      const id = await save(gateway, definition(count));
      return operation === "startRun" ? start(id, input(count)) : dryRun(id, input(count));
    },
  });
  return [
    ...checks.map((stored) => scaled(stored, "startRun")),
    ...flows.flatMap((stored) => [scaled(stored, "startRun"), scaled(stored, "dryRunWorkflow")]),
    ...shownRuns(gateway, start),
    resultRead(gateway, start),
  ];
}

/** Runs of many steps, and what shows them. */
function shownRuns(
  gateway: MeasuredGateway,
  start: (id: string, body: unknown) => FuzzRequest,
): readonly ScaledInput[] {
  return [
    ["getRun", ""],
    ["explainRun", "/why"],
    ["readTimeline", "/timeline?limit=500"],
  ].map(([operation = "", end = ""]) => ({
    operation,
    place: "stored",
    kind: `${operation} of a run of many steps`,
    unit: "steps",
    largest: 1_000,
    settles: false,
    async request(count) {
      const id = await save(gateway, { steps: named(count, () => ({ topic: "scaled-shown" })) });
      const runId = await idOfRun(gateway, start(id, {}));
      return asked(gateway, operation, {
        role: "viewer",
        method: "GET",
        target: `/api/v1/workflow-runs/${runId}${end}`,
      });
    },
  }));
}

/** A worker's result that the conditions of the next steps read. */
function resultRead(
  gateway: MeasuredGateway,
  start: (id: string, body: unknown) => FuzzRequest,
): ScaledInput {
  let polls = 0;
  return {
    operation: "reportResults",
    place: "stored",
    kind: "a large result that many steps read",
    unit: "items",
    largest: 20_000,
    settles: true,
    async request(count) {
      polls += 1;
      const topic = `scaled-result-${polls}`;
      const id = await save(gateway, {
        steps: {
          work: { topic },
          ...named(50, () => ({
            type: "transform",
            depends_on: ["work"],
            input: { all: "${steps.work.output.list.map(x, x + 1)}", same: "${steps.work.output}" },
          })),
        },
      });
      await gateway.send(start(id, {}));
      const worker = "w-scaled";
      const polled = await gateway.send(
        asked(gateway, "pollJobs", {
          role: "worker",
          target: "/api/v1/jobs/poll",
          body: { worker_id: worker, topics: [topic], poll_id: topic, wait_ms: 5_000 },
        }),
      );
      const { jobs } = JSON.parse(polled.kind === "answered" ? polled.text : "{}") as {
        jobs?: Array<{ job_id: string; claim_token: string }>;
      };
      const [job] = jobs ?? [];
      if (job === undefined) throw new Error(`no job came: ${JSON.stringify(polled).slice(0, 500)}`);
      const output = { list: times(count, (index) => index) };
      const result = { job_id: job.job_id, claim_token: job.claim_token, status: "succeeded", output };
      return asked(gateway, "reportResults", {
        role: "worker",
        target: "/api/v1/jobs/results",
        body: { worker_id: worker, results: [result] },
      });
    },
  };
}

async function idOfRun(gateway: MeasuredGateway, request: FuzzRequest): Promise<string> {
  const answer = await gateway.send(request);
  const { run_id } = JSON.parse(answer.kind === "answered" ? answer.text : "{}") as { run_id?: string };
  return run_id ?? "none";
}
