// The client against a real gateway: what it sends, what it makes of refusals, and its lists.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createClient, InterlockApiError, InterlockConnectionError } from "../../src/sdk/index.ts";
import {
  type GatewayWorld,
  makeThings,
  openGatewayWorld,
  simpleWorkflow,
  type Things,
} from "../support/gateway-world.ts";

let world: GatewayWorld;
let things: Things;

beforeAll(async () => {
  world = await openGatewayWorld();
  things = await makeThings(world);
});

afterAll(() => world.close());

const clientOf = (key: string) => createClient({ url: `${world.url}/`, apiKey: key });

describe("calls", () => {
  test("an operation is called by its name, with its path, query and body", async () => {
    const client = clientOf(world.acme.admin.text);
    expect(await client.call("saveWorkflow", { body: { ...simpleWorkflow, id: "by-name" } })).toMatchObject({
      id: "by-name",
    });
    const run = await client.call("getRun", { params: { id: things.runId } });
    expect([run.run_id, run.workflow_id]).toEqual([things.runId, "simple"]);
    const page = await client.call("listRuns", { query: { limit: 1, workflow_id: "simple" } });
    expect(page.items).toHaveLength(1);
    const answer = await client.callWithResponse("removeWorkflow", { params: { id: "by-name" } });
    expect([answer.status, answer.body]).toEqual([204, undefined]);
    expect(answer.headers.get("x-request-id")).toBeTruthy();
  });

  test("ids that hold reserved characters arrive as they are", async () => {
    const client = clientOf(world.acme.operator.text);
    const letter = await client.deadLetters.get(things.letterId);
    expect(letter.job_id).toBe(things.letterId);
    expect(things.letterId).toMatch(/[:@]/);
  });

  test("a workflow may be sent as YAML", async () => {
    const client = clientOf(world.acme.admin.text);
    const saved = await client.workflows.save("id: from-yaml\nsteps:\n  only: { topic: t }\n");
    expect(saved.id).toBe("from-yaml");
    const checked = await client.workflows.validate("id: bad\nsteps:\n  only: { tpic: t }\n");
    expect(checked.problems?.[0]).toMatchObject({ line: 3 });
  });

  test("the texts of /metrics come as text", async () => {
    expect(await clientOf(world.platform.text).call("metrics")).toContain("interlock_");
  });
});

describe("refusals", () => {
  test("say the code, the detail, the place and the request", async () => {
    const client = clientOf(world.acme.admin.text);
    const refused = client.workflows.save({ id: "bad", steps: { one: { tpic: "work" } } });
    const error = await refused.then(String, (caught: unknown) => caught);
    expect(error).toBeInstanceOf(InterlockApiError);
    const { status, code, retryable, requestId, problem, message } = error as InterlockApiError;
    expect({ status, code, retryable }).toEqual({ status: 400, code: "workflow_invalid", retryable: false });
    expect(message).toContain("POST /api/v1/workflows: 400 workflow_invalid");
    expect(message).toContain(String(problem.problems?.[0]?.path));
    expect(message).toContain(String(requestId));
  });

  test("a refusal that a repeat cannot help is thrown at once, whatever the budget", async () => {
    const seen: string[] = [];
    const counting: typeof fetch = (...request) => {
      seen.push(String(request[0]));
      return fetch(...request);
    };
    const client = createClient({ url: world.url, apiKey: "il_nobody", fetch: counting });
    await expect(client.status()).rejects.toMatchObject({ status: 401, code: "unauthenticated" });
    expect(seen).toHaveLength(1);
  });

  test("a busy lock is an answer and is not asked for again", async () => {
    const client = clientOf(world.acme.worker.text);
    const refused = client.locks.acquire({ resource: "invoice/7" });
    await expect(refused).rejects.toMatchObject({ code: "lock_unavailable", retryable: true });
  });

  test("a server that is not there is named, with what to check", async () => {
    const client = createClient({ url: "http://127.0.0.1:4", retry: { attemptsMax: 1 } });
    const error = await client.status().then(String, (caught: unknown) => caught);
    expect(error).toBeInstanceOf(InterlockConnectionError);
    expect(error).toMatchObject({ reason: "refused", effect: "none" });
    expect(String(error)).toMatch(/127\.0\.0\.1:4.*INTERLOCK_URL/);
  });

  test("an address that is none is refused when the client is made", () => {
    expect(() => createClient({ url: "localhost:7300" })).toThrow(/http or https address/);
  });

  test("what answers without being the server is not taken for it", async () => {
    const portal: typeof fetch = () =>
      Promise.resolve(new Response("<html>sign in</html>", { headers: { "content-type": "text/html" } }));
    const client = createClient({ url: "http://portal", fetch: portal, retry: { attemptsMax: 1 } });
    await expect(client.status()).rejects.toMatchObject({ code: "unexpected_answer" });
  });

  test("a redirect is not followed: the key stays here", async () => {
    const moved: typeof fetch = () =>
      Promise.resolve(new Response(null, { status: 302, headers: { location: "https://elsewhere" } }));
    const client = createClient({ url: "http://old", apiKey: "k", fetch: moved });
    await expect(client.status()).rejects.toThrow("https://elsewhere");
  });
});

describe("lists", () => {
  test("are walked page by page, in order, without a gap", async () => {
    const client = clientOf(world.acme.admin.text);
    const started: string[] = [];
    for (let index = 0; index < 5; index += 1) {
      started.push((await client.runs.start("simple", { index })).run_id);
    }
    const seen: string[] = [];
    for await (const run of client.runs.list({ limit: 2, workflow_id: "simple" })) seen.push(run.run_id);
    expect(seen.slice(0, 5)).toEqual(started.toReversed());
    expect(seen.at(-1)).toBe(things.runId);
    const taken = await client.runs.list({ limit: 2 }).take(3);
    expect(taken).toHaveLength(3);
    const pages = [];
    for await (const page of client.workflows.list({ limit: 1 }).pages()) pages.push(page.items.length);
    expect(pages.every((size) => size <= 1)).toBe(true);
  });

  test("locks, approvals, tenants and keys have theirs", async () => {
    const admin = clientOf(world.acme.admin.text);
    const locks = await admin.locks.list().take(10);
    expect(locks.map(({ resource }) => resource)).toContain("invoice/7");
    expect((await admin.locks.get("invoice/7")).fence).toBe(things.lockFence);
    const approvals = await admin.approvals.list({ state: "pending" }).take(10);
    expect(approvals.map(({ job_id }) => job_id)).toContain(things.approvalId);
    const platform = clientOf(world.platform.text);
    expect((await platform.tenants.list({ limit: 1 }).take(10)).map(({ id }) => id)).toEqual(
      expect.arrayContaining(["acme", "globex"]),
    );
    const keys = await platform.keys.list({ tenant: "acme" });
    expect(keys.length).toBeGreaterThan(3);
    for (const { id } of keys.slice(0, 2))
      expect(await platform.keys.get(id)).toEqual(keys.find((key) => key.id === id));
    await expect(admin.keys.get("acme.nobody")).rejects.toMatchObject({ code: "api_key_not_found" });
  });
});

describe("a start", () => {
  test("twice with one key is one run, and says so", async () => {
    const client = clientOf(world.acme.operator.text);
    const first = await client.runs.start("simple", { n: 1 }, { idempotencyKey: "order-7" });
    const second = await client.runs.start("simple", { n: 1 }, { idempotencyKey: "order-7" });
    expect([first.replayed, second.replayed]).toEqual([false, true]);
    expect(second.run_id).toBe(first.run_id);
    expect((await client.lookUpKey("order-7")).run_id).toBe(first.run_id);
  });

  test("can be tried out, explained and cancelled", async () => {
    const client = clientOf(world.acme.operator.text);
    const play = await client.runs.dryRun("simple", { input: { n: 1 }, outputs: { one: 2 } });
    expect(play.status).toBe("succeeded");
    const { run_id } = await client.runs.start("simple", {});
    expect((await client.runs.why(run_id)).run_id).toBe(run_id);
    await client.runs.cancel(run_id, { reason: "a test" });
    const run = await client.runs.wait(run_id, { timeoutMs: 10_000 });
    expect(run.status).toBe("cancelled");
    expect((await client.runs.timeline(run_id).take(50)).at(-1)?.type).toBe("run_completed");
  });
});
