// Retries of the client: what is repeated, with which identity, how long after, and what is never repeated.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createClientIn } from "../../src/sdk/client.ts";
import { createClient, type InterlockApiError } from "../../src/sdk/index.ts";
import { type FaultProxy, startFaultProxy } from "../support/fault-proxy.ts";
import { type GatewayWorld, openGatewayWorld, simpleWorkflow } from "../support/gateway-world.ts";
import { testRuntime } from "../support/sdk-runtime.ts";

describe("over a connection that breaks", () => {
  let world: GatewayWorld;
  let proxy: FaultProxy;

  beforeAll(async () => {
    world = await openGatewayWorld();
    proxy = await startFaultProxy(Number(new URL(world.url).port));
  });
  beforeEach(() => {
    proxy.pass();
    world.setStore("answering");
  });
  afterAll(async () => {
    await proxy.close();
    await world.close();
  });

  const through = (key: string, timeoutMs = 10_000) =>
    createClient({ url: `http://127.0.0.1:${proxy.port}`, apiKey: key, timeoutMs });
  const direct = () => createClient({ url: world.url, apiKey: world.acme.admin.text });

  async function savedWorkflow(id: string): Promise<string> {
    await direct().workflows.save({ ...simpleWorkflow, id });
    return id;
  }

  test("a start whose answer was lost is repeated with its key: there is one run", async () => {
    const workflow = await savedWorkflow("lost-answer");
    const lost = proxy.swallowNextReply((text) => text.startsWith("POST /api/v1/workflows/lost-answer/runs"));
    const started = await through(world.acme.operator.text).runs.start(workflow, { n: 1 });
    await lost;
    expect(started.replayed).toBe(true);
    const runs = await direct().runs.list({ workflow_id: workflow }).take(10);
    expect(runs.map(({ run_id }) => run_id)).toEqual([started.run_id]);
  });

  test("two starts without a key of their own are two runs", async () => {
    const workflow = await savedWorkflow("two-starts");
    const client = through(world.acme.operator.text);
    await client.runs.start(workflow, { n: 1 });
    await client.runs.start(workflow, { n: 1 });
    expect(await direct().runs.list({ workflow_id: workflow }).take(10)).toHaveLength(2);
  });

  test("a start of unknown outcome is repeated with its key until the server knows", async () => {
    const workflow = await savedWorkflow("unknown-outcome");
    const keys: unknown[] = [];
    const watched: typeof fetch = async (url, request) => {
      keys.push(new Headers(request?.headers).get("idempotency-key"));
      const answer = await fetch(url, request);
      if (keys.length > 1) return answer;
      const unknown = { code: "outcome_unknown", outcome: "unknown", retryable: true, title: "unknown" };
      return Response.json(unknown, { status: 503 });
    };
    const client = createClient({ url: world.url, apiKey: world.acme.operator.text, fetch: watched });
    const started = await client.runs.start(workflow, {});
    expect(keys.length).toBeGreaterThan(1);
    expect(new Set(keys).size).toBe(1);
    const runs = await direct().runs.list({ workflow_id: workflow }).take(10);
    expect(runs.map(({ run_id }) => run_id)).toEqual([started.run_id]);
  });

  test("a new key whose answer was lost is not made a second time", async () => {
    const before = (await direct().keys.list()).length;
    const lost = proxy.swallowNextReply((text) => text.startsWith("POST /api/v1/keys"));
    const made = through(world.acme.admin.text).keys.create({ role: "viewer", name: "spare" });
    await expect(made).rejects.toMatchObject({ name: "InterlockConnectionError", effect: "unknown" });
    await lost;
    expect((await direct().keys.list()).length).toBe(before + 1);
  });

  test("what was surely not done is repeated, whatever it is", async () => {
    let tries = 0;
    const watched: typeof fetch = async (...request) => {
      tries += 1;
      world.setStore(tries === 1 ? "unavailable" : "answering");
      return fetch(...request);
    };
    const client = createClient({ url: world.url, apiKey: world.acme.admin.text, fetch: watched });
    expect((await client.keys.create({ role: "viewer", name: "later" })).name).toBe("later");
    expect(tries).toBe(2);
  });

  test("a removal whose answer was lost counts as done when the repeat finds nothing", async () => {
    const workflow = await savedWorkflow("to-remove");
    const lost = proxy.swallowNextReply((text) => text.startsWith("DELETE /api/v1/workflows/to-remove"));
    await through(world.acme.admin.text).workflows.remove(workflow);
    await lost;
    await expect(direct().workflows.remove(workflow)).rejects.toMatchObject({ code: "workflow_not_found" });
  });

  test("an acquire whose answer was lost finds its own lock", async () => {
    const lost = proxy.swallowNextReply((text) => text.startsWith("POST /api/v1/locks/acquire"));
    const lock = await through(world.acme.worker.text).locks.acquire({ resource: "lost/1", ttl_ms: 60_000 });
    await lost;
    expect((await direct().locks.get("lost/1")).fence).toBe(lock.fence);
  });

  test("a server that says nothing is given up after the time for one try", async () => {
    proxy.blackhole();
    const client = createClient({
      url: `http://127.0.0.1:${proxy.port}`,
      apiKey: world.acme.admin.text,
      timeoutMs: 50,
      retry: { attemptsMax: 2 },
    });
    await expect(client.status()).rejects.toMatchObject({ reason: "timeout", effect: "unknown" });
  });
});

describe("pauses between tries", () => {
  const refusal = (status: number, problem: object, headers: Record<string, string> = {}) =>
    new Response(JSON.stringify({ title: "no", detail: "no", ...problem }), {
      status,
      headers: { "content-type": "application/problem+json", ...headers },
    });

  /** Answers with these, in order, and with the last for ever. */
  function clientOf(
    answers: Array<() => Response>,
    retry = { budgetMs: 30_000, attemptsMax: 8 },
    fraction = 0.5,
  ) {
    const around = testRuntime({ fraction });
    let calls = 0;
    const answering: typeof fetch = () => {
      const answer = answers[Math.min(calls, answers.length - 1)] as () => Response;
      calls += 1;
      return Promise.resolve(answer());
    };
    const client = createClientIn(around, { url: "http://test", fetch: answering, retry });
    return { client, pauses: around.pauses, calls: () => calls };
  }

  const limit = () =>
    refusal(429, { code: "max_concurrent_runs_reached", retryable: true }, { "retry-after": "7" });
  const started = () => Response.json({ run_id: "run_1", status: "pending" });

  test("are never shorter than the server asks for", async () => {
    const { client, pauses } = clientOf([limit, limit, started]);
    await client.runs.start("w", {});
    expect(pauses).toHaveLength(2);
    for (const pauseMs of pauses) expect(pauseMs).toBeGreaterThanOrEqual(7_000);
  });

  test("grow, with full jitter, up to five seconds", async () => {
    const busy = () => refusal(503, { code: "overloaded", retryable: true });
    const most = clientOf([busy], { budgetMs: 600_000, attemptsMax: 9 }, 1);
    await expect(most.client.status()).rejects.toThrow("overloaded");
    expect(most.pauses).toEqual([200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]);
    const least = clientOf([busy], { budgetMs: 600_000, attemptsMax: 3 }, 0);
    await expect(least.client.status()).rejects.toThrow("overloaded");
    expect(least.pauses).toEqual([0, 0]);
  });

  test("that would go beyond the budget are not begun: the refusal comes at once, with its Retry-After", async () => {
    const { client, pauses, calls } = clientOf([limit], { budgetMs: 5_000, attemptsMax: 8 });
    const error = await client.runs.start("w", {}).then(String, (caught: unknown) => caught);
    expect((error as InterlockApiError).retryAfterMs).toBe(7_000);
    expect([pauses.length, calls()]).toEqual([0, 1]);
  });

  test("a budget is spent over all tries together", async () => {
    const { client, calls } = clientOf([limit], { budgetMs: 20_000, attemptsMax: 100 });
    await expect(client.runs.start("w", {})).rejects.toMatchObject({ code: "max_concurrent_runs_reached" });
    expect(calls()).toBe(3);
  });

  test("a proxy's 502 repeats what may be repeated, and nothing else", async () => {
    const broken = () => new Response("bad gateway", { status: 502 });
    const start = clientOf([broken, started]);
    await start.client.runs.start("w", {});
    expect(start.calls()).toBe(2);
    const key = clientOf([broken]);
    await expect(key.client.keys.create({ role: "viewer", name: "n" })).rejects.toMatchObject({
      status: 502,
    });
    expect(key.calls()).toBe(1);
  });

  test("end when the caller does not want to wait any longer", async () => {
    const leaving = new AbortController();
    const busy = () => {
      leaving.abort(new Error("closing time"));
      return refusal(503, { code: "overloaded", retryable: true });
    };
    const { client, calls } = clientOf([busy]);
    await expect(client.status({ signal: leaving.signal })).rejects.toThrow("closing time");
    expect(calls()).toBe(1);
  });
});
