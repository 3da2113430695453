// Requests made from the OpenAPI document against a running server: valid ones, wrong ones, hostile ones; every answer is judged.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findingText, fuzz, type Summary } from "../fuzz/fuzz.ts";
import { problemsOf } from "../fuzz/judge.ts";
import { fuzzOperations } from "../fuzz/operations.ts";
import type { FuzzAnswer, FuzzRequest } from "../fuzz/request.ts";
import { type FuzzWorld, openFuzzWorld } from "../fuzz/world.ts";

test("the same on Redis, where every text goes through a script", async () => {
  const world = await openFuzzWorld("redis");
  try {
    const summary = await fuzz(world, { seed: 2, goesOn: ({ requests: done }) => done < 700 });
    expect(summary.findings.map(findingText)).toEqual([]);
    expect((await world.gateway.ask("GET", "/readyz")).status).toBe(200);
  } finally {
    await world.close();
  }
});

/** The operations that were never answered so. */
function without({ byOperation }: Summary, status: string): readonly string[] {
  return fuzzOperations.map(({ name }) => name).filter((name) => !byOperation.get(name)?.has(status));
}

const idleIn = (summary: Summary) => without(summary, "2xx");

describe("requests made from the OpenAPI document", () => {
  /** Every operation comes up about forty times. */
  const requests = 2_600;
  let world: FuzzWorld;
  let summary: Summary;

  beforeAll(async () => {
    world = await openFuzzWorld();
    // Some operations need what others have made: a canary that goes on, for instance. Luck may take a little longer.
    const goesOn = (soFar: Summary) =>
      soFar.requests < requests || (idleIn(soFar).length > 0 && soFar.requests < 3 * requests);
    summary = await fuzz(world, { seed: 1, goesOn });
  });

  afterAll(() => world.close());

  test("are answered as the document says, and refusals change nothing", () => {
    expect(summary.findings.map(findingText)).toEqual([]);
    expect(summary.requests).toBeGreaterThanOrEqual(requests);
    expect(summary.refusedWritesCompared).toBeGreaterThan(10);
  });

  test("reach every operation: each has done what it is for, and refused what it does not take", () => {
    expect(idleIn(summary)).toEqual([]);
    expect(without(summary, "4xx")).toEqual([]);
  });

  test("leave a server that still answers, with nothing under way and no failure of its own in the log", async () => {
    expect((await world.gateway.ask("GET", "/readyz")).status).toBe(200);
    expect(world.gateway.gateway.inFlight()).toBe(0);
    expect(world.gateway.logged.filter((line) => line.includes('"code":"internal"'))).toEqual([]);
  });
});

describe("the judge of answers", () => {
  const listRuns = fuzzOperations.find(({ name }) => name === "listRuns");
  if (listRuns === undefined) throw new Error("the document has lost an operation");
  const request: FuzzRequest = {
    operation: "listRuns",
    how: "valid",
    method: "GET",
    target: "/api/v1/workflow-runs",
    headers: {},
    body: undefined,
    isRouted: true,
  };
  const headers = {
    "content-type": "application/json; charset=utf-8",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "x-request-id": "req_1",
  };
  const judge = (answer: object) => {
    const whole = { kind: "answered", status: 200, headers, ...answer } as unknown as FuzzAnswer;
    return problemsOf(listRuns, request, whole).join("; ");
  };
  const problem = (code: string, status: number) => ({
    status,
    headers: { ...headers, "content-type": "application/problem+json" },
    text: JSON.stringify({
      ...{ type: "urn:x", title: "x", status, detail: "x", error: "x", code, retryable: true },
      request_id: "req_1",
    }),
  });

  test("takes a page and a documented refusal", () => {
    expect(judge({ text: '{"items":[],"next_cursor":null}' })).toBe("");
    expect(judge(problem("invalid_request", 400))).toBe("");
  });

  test.each([
    ["no answer", { kind: "none", cause: "reset" }, "no answer"],
    ["a status that is not documented", { status: 418, text: "{}" }, "no code of the table"],
    ["a success that is not documented", { status: 202, text: "{}" }, "202 is not documented"],
    ["a field too few", { text: '{"items":[]}' }, "does not fit"],
    ["a field that nobody described", { text: '{"items":[],"next_cursor":null,"sql":1}' }, "does not fit"],
    ["another media type", { headers: { ...headers, "content-type": "text/html" }, text: "{}" }, "text/html"],
    ["500", problem("internal", 500), "500 internal"],
    ["a code of another operation", problem("lock_not_owned", 409), "not documented"],
    ["503 without Retry-After", problem("store_unavailable", 503), "without Retry-After"],
    ["a code that does not go with its status", problem("invalid_request", 403), "came with 403"],
    ["a stack", { text: '{"items":[],"next_cursor":"at load (/x/y.ts:3:1)"}' }, "inside of the server"],
    ["a missing header", { headers: {}, text: '{"items":[],"next_cursor":null}' }, "no Cache-Control"],
  ])("does not take %s", (_what, answer, words) => {
    expect(judge(answer)).toContain(words);
  });
});
