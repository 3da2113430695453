// Live events over real HTTP: what tenants' and runs' streams and pages show, where they begin, resume and end.
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { openEvents } from "../support/event-client.ts";
import {
  closeAll,
  follow,
  openWorld,
  sequences,
  start,
  streamsOpen,
  types,
  until,
  work,
} from "../support/event-scene.ts";
import { expectProblem } from "../support/gateway-requests.ts";
import { type acme, makeKey, makeThings, simpleWorkflow } from "../support/gateway-world.ts";
import { type Program, servedBy, startProgram } from "../support/program.ts";
import { diskFolder } from "../support/stores.ts";

afterEach(closeAll);

describe("a tenant's stream", () => {
  test("shows what happens from now on, with what a screen needs", async () => {
    const world = await openWorld();
    const client = await follow(world, "/api/v1/events/stream");
    expect(client.status).toBe(200);
    expect(client.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(client.headers.get("cache-control")).toBe("no-store");
    const runId = await start(world);
    await work(world, "p-1");
    await client.until("the run has ended", (events) => types(events).includes("run_ended"));
    const [first] = client.events;
    expect(first).toMatchObject({
      type: "run_admitted",
      id: String(first?.data.sequence),
      data: {
        type: "run_admitted",
        run_id: runId,
        workflow_id: "simple",
        actor: world.acme.operator.key.keyId,
      },
    });
    expect(client.events.at(-1)?.data).toMatchObject({ run_id: runId, status: "succeeded" });
    expect(client.text()).toMatch(/^retry: 2000\nid: \d+\n\n/);
    const page = await world.ask("GET", "/api/v1/events?limit=500", { key: world.acme.viewer });
    const rows = page.json.items as Array<{ sequence: number }>;
    const shown = client.events.map(({ data }) => data);
    expect(shown).toEqual(rows.slice(-shown.length));
  });

  test("resumes after the last id, by header or by query, and the header wins", async () => {
    const world = await openWorld();
    const first = await follow(world, "/api/v1/events/stream?from=start");
    await first.until("what there is", (events) => events.length >= 3);
    const all = sequences(first.events);
    expect(all).toEqual(all.map((_, index) => index + 1));
    first.close();
    await start(world);
    const byHeader = await follow(world, "/api/v1/events/stream?last_event_id=1", {
      lastEventId: first.lastEventId(),
    });
    await byHeader.until("the start", (events) => types(events).includes("run_admitted"));
    expect(sequences(byHeader.events)[0]).toBe(Number(first.lastEventId()) + 1);
    const byQuery = await follow(world, "/api/v1/events/stream?last_event_id=2");
    await byQuery.until("the rest", (events) => events.length >= 2);
    expect(sequences(byQuery.events)[0]).toBe(3);
  });

  test("that begins now can be resumed although nothing had happened", async () => {
    const world = await openWorld();
    const quiet = await follow(world, "/api/v1/events/stream");
    await until("it has begun", () => quiet.lastEventId() !== undefined);
    quiet.close();
    const runId = await start(world);
    const resumed = await follow(world, "/api/v1/events/stream", { lastEventId: quiet.lastEventId() });
    await resumed.until("the run", (events) => events.some(({ data }) => data.run_id === runId));
    expect(types(resumed.events)).toEqual(["run_admitted"]);
  });

  test("is reset by an id that is not of this store, and refuses what is no id", async () => {
    const world = await openWorld();
    const client = await follow(world, "/api/v1/events/stream", { lastEventId: "999999" });
    await client.until("a row", (events) => events.length >= 2);
    const [reset, next] = client.events;
    expect(reset).toMatchObject({ type: "reset", id: "0", data: { first: 1, reason: "ahead" } });
    expect(next?.data.sequence).toBe(1);
    for (const id of ["abc", "-1", "1.5", "9".repeat(16)]) {
      const headers = { "last-event-id": id };
      const answer = await world.ask("GET", "/api/v1/events/stream", { key: world.acme.viewer, headers });
      expectProblem(undefined, answer, "invalid_request");
    }
  });

  test("is the tenant's own; a platform key names whose it wants", async () => {
    const world = await openWorld();
    const mine = await follow(world, "/api/v1/events/stream?from=start", { key: world.globex.viewer });
    const named = await follow(world, "/api/v1/events/stream?tenant=acme", { key: world.platform });
    const runId = await start(world);
    await named.until("the run", (events) => events.some(({ data }) => data.run_id === runId));
    await makeKey(world.plane, "globex" as typeof acme, "viewer");
    await mine.until("its keys", (events) => events.length >= 5);
    expect(mine.text()).not.toContain("acme");
    expect(mine.text()).not.toContain(runId);
    const foreign = await world.ask("GET", "/api/v1/events/stream?tenant=acme", { key: world.globex.viewer });
    expectProblem(undefined, foreign, "tenant_mismatch");
  });

  test("sends comments while nothing happens", async () => {
    const world = await openWorld({ "events.heartbeatMs": 100 });
    const client = await follow(world, "/api/v1/events/stream");
    await until("two of them", () => (client.text().match(/^: heartbeat$/gm) ?? []).length >= 2);
    expect(client.events).toEqual([]);
  });

  test("is answered with its head alone when only that is asked for", async () => {
    const world = await openWorld();
    const answer = await world.ask("HEAD", "/api/v1/events/stream", { key: world.acme.viewer });
    expect([answer.status, answer.text]).toEqual([200, ""]);
    await until("its place is free", () => world.gateway.inFlight() === 0);
  });
});

describe("a run's stream", () => {
  test("shows its timeline from the first row, ends with the run, and is not opened again for nothing", async () => {
    const world = await openWorld();
    const runId = await start(world);
    const path = `/api/v1/workflow-runs/${runId}/events`;
    const client = await follow(world, path);
    await client.until("its beginning", (events) => events.length > 0);
    await work(world, "p-1");
    expect(await client.over).toBe("ended");
    expect(types(client.events).slice(-2)).toEqual(["run_completed", "end"]);
    expect(client.events.at(-1)).toMatchObject({
      id: undefined,
      data: { reason: "run_ended", status: "succeeded" },
    });
    const timeline = await world.ask("GET", `/api/v1/workflow-runs/${runId}/timeline`, {
      key: world.acme.viewer,
    });
    expect(client.events.slice(0, -1).map(({ data }) => data)).toEqual(timeline.json.items);
    const ids = client.events.flatMap(({ id }) => (id === undefined ? [] : [Number(id)]));
    expect(ids).toEqual(ids.map((_, index) => index + 1));

    const again = await follow(world, path, { lastEventId: client.lastEventId() });
    expect([again.status, await again.over, again.text()]).toEqual([204, "ended", ""]);
    const late = await follow(world, path, { lastEventId: String(ids.length - 1) });
    expect(await late.over).toBe("ended");
    expect(types(late.events).slice(-2)).toEqual(["run_completed", "end"]);
    await until("all places are free", async () => (await streamsOpen(world)) === 0);
  });

  test("is not found before any stream begins when there is no such run, or it is another tenant's", async () => {
    const world = await openWorld();
    const { runId } = await makeThings(world);
    for (const [id, key] of [
      ["run_01_0123456789abcdef", world.acme.viewer],
      ["x", world.acme.viewer],
      [runId, world.globex.admin],
    ] as const) {
      const answer = await world.ask("GET", `/api/v1/workflow-runs/${id}/events`, { key });
      expectProblem(undefined, answer, "run_not_found");
    }
  });

  test("ends when the run is deleted", async () => {
    const world = await openWorld();
    const runId = await start(world);
    const client = await follow(world, `/api/v1/workflow-runs/${runId}/events`);
    await client.until("its beginning", (events) => events.length > 0);
    await world.ask("DELETE", `/api/v1/workflow-runs/${runId}`, { key: world.acme.admin });
    expect(await client.over).toBe("ended");
    expect(client.events.at(-1)?.type).toBe("end");
  });
});

describe("pages of events", () => {
  test("go on where the one before ended, also after the end, and say when rows were dropped", async () => {
    const world = await openWorld();
    const ask = async (query: string) =>
      (await world.ask("GET", `/api/v1/events?${query}`, { key: world.acme.viewer })).json as {
        items: Array<{ sequence: number; type: string }>;
        next_cursor: string;
        has_more: boolean;
        reset: boolean;
        first: number;
        last: number;
      };
    const first = await ask("limit=2");
    expect(first).toMatchObject({
      items: [{ sequence: 1 }, { sequence: 2 }],
      has_more: true,
      reset: false,
      first: 1,
    });
    const rest = await ask(`cursor=${first.next_cursor}`);
    expect(rest).toMatchObject({ has_more: false, reset: false });
    expect(rest.items.at(-1)?.sequence).toBe(rest.last);
    const none = await ask(`cursor=${rest.next_cursor}`);
    expect(none).toMatchObject({ items: [], has_more: false, reset: false, next_cursor: rest.next_cursor });
    const now = await ask("from=now");
    expect(now).toMatchObject({ items: [], reset: false });
    await start(world);
    for (const { next_cursor } of [none, now]) {
      expect((await ask(`cursor=${next_cursor}`)).items.map(({ type }) => type)).toEqual(["run_admitted"]);
    }
    const both = await world.ask("GET", `/api/v1/events?from=now&cursor=${now.next_cursor}`, {
      key: world.acme.viewer,
    });
    expectProblem(undefined, both, "invalid_request");
  });
});

test("a stream goes on after the server was killed and started again, without a row twice or left out", async () => {
  const folder = diskFolder();
  const settings = { GATEWAY_PORT: "0" };
  const started: Program[] = [];
  const serve = async () => {
    const program = startProgram("serve.ts", { cwd: folder, settings });
    started.push(program);
    const { url, keys_file } = await servedBy(program);
    const keys = JSON.parse(readFileSync(join(folder, keys_file), "utf8")) as { readonly admin: string };
    return { url, key: keys.admin, program };
  };
  try {
    const first = await serve();
    const save = async ({ url, key }: { readonly url: string; readonly key: string }, id: string) => {
      const headers = { "x-api-key": key, "content-type": "application/json" };
      const body = JSON.stringify({ ...simpleWorkflow, id });
      const answer = await fetch(`${url}/api/v1/workflows`, { method: "POST", headers, body });
      expect(answer.status).toBe(201);
    };
    const path = "/api/v1/events/stream";
    const before = await openEvents(`${first.url}${path}?from=start`, first);
    for (const id of ["a", "b", "c"]) await save(first, id);
    await before.until("all three", (events) => events.some(({ data }) => data.subject === "workflow/c"));
    await first.program.kill();
    await before.over;
    const second = await serve();
    for (const id of ["d", "e"]) await save(second, id);
    const lastEventId = before.lastEventId();
    const resumed = await openEvents(second.url + path, { ...second, lastEventId });
    await save(second, "f");
    await resumed.until("the last", (events) => events.some(({ data }) => data.subject === "workflow/f"));
    resumed.close();
    const all = sequences([...before.events, ...resumed.events]);
    expect(all).toEqual(all.map((_, index) => index + 1));
    const workflows = [...before.events, ...resumed.events].filter(
      ({ data }) => data.collection === "workflow",
    );
    expect(workflows.map(({ data }) => data.document_id)).toEqual(["a", "b", "c", "d", "e", "f"]);
  } finally {
    await Promise.all(started.map((program) => program.kill()));
    rmSync(folder, { recursive: true, force: true });
  }
});
