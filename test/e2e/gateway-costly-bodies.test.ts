// Bodies that are as costly to read as a body may be: others are answered meanwhile, and refusals stay short.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectProblem } from "../support/gateway-requests.ts";
import { type GatewayWorld, makeThings, openGatewayWorld, type Received } from "../support/gateway-world.ts";

let world: GatewayWorld;

beforeAll(async () => {
  // A busy machine is not what this is about.
  world = await openGatewayWorld({ "gateway.eventLoopDelayMs": 60_000 });
  await makeThings(world);
});

afterAll(async () => {
  await world.close();
});

/** The most processor time that passed between two turns of the event loop, in which nobody else was answered. */
async function longestTurnMs(work: () => Promise<unknown>): Promise<number> {
  let longestMs = 0;
  let isOver = false;
  const watching = (async () => {
    while (!isOver) {
      const before = process.cpuUsage();
      await new Promise((resolve) => setImmediate(resolve));
      const { user, system } = process.cpuUsage(before);
      longestMs = Math.max(longestMs, (user + system) / 1_000);
    }
  })();
  await work();
  isOver = true;
  await watching;
  return longestMs;
}

/** Of all threads together, the collector of garbage among them. 68 is the most that was seen; at once it would be 1,200. */
const turnMsMax = 200;

const bodyBytes = 2_097_000;
const many = (item: (index: number) => string, bytes: number): string => {
  const items: string[] = [];
  for (let length = 0; length < bytes; length += (items.at(-1) ?? "").length + 1)
    items.push(item(items.length));
  return items.slice(0, -1).join(",");
};
const inResults = (output: string) =>
  `{"worker_id":"w","results":[{"job_id":"j","claim_token":"t","status":"succeeded","output":${output}}]}`;

describe("a number of 60,000 digits", () => {
  const number = `1.${"0".repeat(60_000)}1`;

  test("is refused at once, in few words, to anybody with any key", async () => {
    const answers: Received[] = [];
    const turnMs = await longestTurnMs(async () => {
      const sent = { key: world.acme.worker, text: inResults(number) };
      answers.push(await world.ask("POST", "/api/v1/jobs/results", sent));
    });
    const [answer] = answers;
    expectProblem(undefined, answer as Received, "invalid_request");
    expect(answer?.json.detail).toMatch(
      /^the body is not valid JSON: the number 1\.0+\.\.\. has 60003 characters/,
    );
    expect(answer?.text.length).toBeLessThan(1_000);
    expect(turnMs).toBeLessThan(turnMsMax);
  });

  test("is refused in YAML, too", async () => {
    const headers = { "content-type": "application/yaml" };
    const sent = { key: world.acme.viewer, text: `id: a\nversion: ${number}\n`, headers };
    const answer = await world.ask("POST", "/api/v1/workflows/validate", sent);
    expectProblem(undefined, answer, "invalid_request");
    expect(answer.json.detail).toMatch(/the number 1\.0+\.\.\. has 60003 characters/);
    expect(answer.text.length).toBeLessThan(2_000);
  });
});

describe("a body of two mebibytes", () => {
  const numbers = `[${many(() => "1", bodyBytes)}]`;
  const objects = `[${many((index) => `{"n${index}":1}`, bodyBytes)}]`;

  test.each([
    ["numbers", numbers],
    ["objects", objects],
  ])("of %s: as a result, nobody waits for long", async (_, output) => {
    const turnMs = await longestTurnMs(async () => {
      const sent = { key: world.acme.worker, text: inResults(output) };
      expect((await world.ask("POST", "/api/v1/jobs/results", sent)).status).toBe(200);
    });
    expect(turnMs).toBeLessThan(turnMsMax);
  });

  test("as the input of a run with a key: nobody waits for long", async () => {
    const turnMs = await longestTurnMs(async () => {
      const headers = { "idempotency-key": "costly" };
      const sent = { key: world.acme.operator, text: `{"input":${numbers}}`, headers };
      const answer = await world.ask("POST", "/api/v1/workflows/simple/runs", sent);
      expect(["invalid_request", "input_invalid"]).toContain(answer.json.code);
    });
    expect(turnMs).toBeLessThan(turnMsMax);
  });

  test("of more arrays than anybody needs is refused", async () => {
    const sent = { key: world.acme.worker, text: inResults(`[${many(() => "[]", bodyBytes)}]`) };
    const answer = await world.ask("POST", "/api/v1/jobs/results", sent);
    expectProblem(undefined, answer, "invalid_request");
    expect(answer.json.detail).toContain("there are more than 250000 arrays and objects");
  });
});

describe("what a refusal repeats", () => {
  const long = "x".repeat(100_000);

  test.each<[string, string, "viewer" | "worker" | "operator", unknown]>([
    [
      "the name of a step",
      "/api/v1/workflows/validate",
      "viewer",
      { id: "a", steps: { [long]: { colour: 1, topic: 2 } } },
    ],
    ["an unknown field", "/api/v1/workflows/validate", "viewer", { [long]: 1 }],
    [
      "a step that does not exist",
      "/api/v1/workflows/validate",
      "viewer",
      { id: "a", steps: { a: { type: "llm", depends_on: [long] } } },
    ],
    ["a field of a result", "/api/v1/jobs/results", "worker", { worker_id: "w", results: [], [long]: 1 }],
    ["a topic", "/api/v1/jobs/poll", "worker", { worker_id: "w", poll_id: "p", topics: [long] }],
    ["a decision", "/api/v1/approvals/a/approve", "operator", { hash: long, reason: long }],
    ["a lock", "/api/v1/locks/acquire", "operator", { resource: long, owner: long }],
  ])("%s: is short, however long it was", async (_, path, role, body) => {
    const answer = await world.ask("POST", path, { key: world.acme[role], body });
    expect(answer.text).toMatch(/problems|code/);
    expect(answer.text.length).toBeLessThan(5_000);
  });

  test.each([
    "/api/v1/nowhere/",
    "/api/v1/workflow-runs/",
    "/api/v1/jobs/",
    "/api/v1/workflows?cursor=",
    "/api/v1/workflows?",
  ])("%s with a long end: is short", async (path) => {
    const answer = await world.ask("GET", path + "x".repeat(8_000), { key: world.acme.viewer });
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.text.length).toBeLessThan(1_000);
  });

  test.each(["idempotency-key", "x-tenant-id", "content-type", "authorization"])(
    "the header %s: is short",
    async (name) => {
      const headers = { [name]: "x".repeat(8_000) };
      const answer = await world.ask("POST", "/api/v1/workflows/simple/runs", {
        key: world.acme.operator,
        body: {},
        headers,
      });
      expect(answer.status).toBeGreaterThanOrEqual(400);
      expect(answer.text.length).toBeLessThan(1_000);
    },
  );
});
