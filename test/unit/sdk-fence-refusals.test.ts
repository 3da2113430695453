// What the fence guard answers, whole: every kind of call that it lets through or refuses, and what it makes of Interlock's word.
import { describe, expect, test } from "vitest";
import {
  confirmWith,
  type FenceGuardOptions,
  fenceGuard,
  fenceHeaders,
  InterlockConnectionError,
  memoryFenceStore,
} from "../../src/sdk/index.ts";
import { clientOf, proxy, said } from "../support/sdk-answers.ts";

const fields = { "interlock-fence": "7", "interlock-fence-resource": "r" };

const judged = (headers: Record<string, string | readonly string[]>, options: FenceGuardOptions = {}) =>
  fenceGuard(options).judge(headers);

const missing = (detail: string) => ({
  status: 400,
  problem: {
    ...{ type: "urn:interlock:error:fence_required", title: "the call carries no fence", status: 400 },
    ...{ detail, code: "fence_required", retryable: false },
  },
});

test("a call without a fence is told what is missing, or let through", async () => {
  const nothing = missing("Interlock-Fence and Interlock-Fence-Resource are missing");
  expect(await judged({})).toEqual(nothing);
  expect(await judged({ "interlock-job": "j" })).toEqual(nothing);
  expect(await judged({}, { missing: "through" })).toBeUndefined();
});

describe("a call that carries", () => {
  const number = missing("Interlock-Fence must be one whole number");
  const name = missing("Interlock-Fence-Resource must be one name");
  const job = missing("Interlock-Job must be one id");
  test.each([
    ["a fence alone", { "interlock-fence": "7" }, name],
    ["a resource alone", { "interlock-fence-resource": "r" }, number],
    ["the fence 0", { ...fields, "interlock-fence": "0" }, number],
    ["the fence 1", { ...fields, "interlock-fence": "1" }, undefined],
    ["the largest safe fence", { ...fields, "interlock-fence": "9007199254740991" }, undefined],
    ["one more than that", { ...fields, "interlock-fence": "9007199254740992" }, number],
    ["a fence of 17 digits", { ...fields, "interlock-fence": "10000000000000000" }, number],
    ["a fence with a space", { ...fields, "interlock-fence": " 7" }, number],
    ["two fences", { ...fields, "interlock-fence": ["7", "8"] }, number],
    ["two resources", { ...fields, "interlock-fence-resource": ["r", "s"] }, name],
    ["an empty resource", { ...fields, "interlock-fence-resource": "" }, name],
    ["a resource of 1,024 letters", { ...fields, "interlock-fence-resource": "r".repeat(1_024) }, undefined],
    ["a resource of 1,025 letters", { ...fields, "interlock-fence-resource": "r".repeat(1_025) }, name],
    ["a job", { ...fields, "interlock-job": "j" }, undefined],
    ["an empty job", { ...fields, "interlock-job": "" }, job],
    ["two jobs", { ...fields, "interlock-job": ["j", "k"] }, job],
    ["half a letter", { ...fields, "interlock-job": "%E0%A4" }, job],
  ])("%s", async (_, headers, refusal) => {
    expect(await judged(headers)).toEqual(refusal);
    expect(await judged(headers, { missing: "through" })).toEqual(refusal);
  });
});

test("header fields carry the job where there is one, and visible ASCII as it is", () => {
  expect(fenceHeaders({ resource: "!$&~", fence: 7 })).toEqual({
    ...{ "interlock-fence": "7", "interlock-fence-resource": "!$&~" },
  });
  expect(fenceHeaders({ resource: "a%b ü", fence: 7, job: "j k" })).toEqual({
    "interlock-fence": "7",
    "interlock-fence-resource": "a%25b%20%C3%BC",
    "interlock-job": "j%20k",
  });
});

const superseded = (resource: string, fence: number) => ({
  status: 412,
  problem: {
    type: "urn:interlock:error:fence_superseded",
    title: "superseded: the fence is not the newest",
    status: 412,
    detail: "A newer attempt or holder has taken over: stop this work.",
    ...{ code: "fence_superseded", retryable: false, resource, fence },
  },
});

test("fences one below, at and one above the newest of their resource", async () => {
  const guard = fenceGuard();
  const at = (fence: number) => guard.judge(fenceHeaders({ resource: "r", fence }));
  expect(await at(7)).toBeUndefined();
  expect(await at(6)).toEqual(superseded("r", 6));
  expect(await at(7)).toBeUndefined();
  expect(await at(8)).toBeUndefined();
  expect(await at(7)).toEqual(superseded("r", 7));
});

describe("a guard that asks whether the attempt is the current one", () => {
  const call = fenceHeaders({ resource: "r", fence: 7, job: "run_1:a@1" });

  test("hands over the whole call, and asks its store last", async () => {
    const asked: unknown[] = [];
    const options: FenceGuardOptions = {
      confirm: async (given) => {
        asked.push(given);
        return "current";
      },
      store: {
        admit(resource, fence) {
          asked.push([resource, fence]);
          return "superseded";
        },
      },
    };
    expect(await judged(call, options)).toEqual(superseded("r", 7));
    expect(asked).toEqual([{ resource: "r", fence: 7, job: "run_1:a@1" }, ["r", 7]]);
  });

  test("does not remember the fence of a call that it refused", async () => {
    const store = memoryFenceStore();
    expect(await judged(call, { store, confirm: async () => "superseded" })).toEqual(superseded("r", 7));
    expect(store.admit("r", 6)).toBe("admitted");
  });

  test("says with 503 that it could not ask", async () => {
    expect(await judged(call, { confirm: async () => "unknown" })).toEqual({
      status: 503,
      problem: {
        type: "urn:interlock:error:fence_unconfirmed",
        title: "the fence could not be confirmed",
        status: 503,
        detail: "It could not be asked whether the attempt is still the current one: repeat the call.",
        ...{ code: "fence_unconfirmed", retryable: true, resource: "r", fence: 7 },
      },
    });
  });
});

describe("Interlock, asked about a job", () => {
  const confirmed = async (answer: () => Response | Promise<Response>, job: string | undefined = "j") => {
    const { client, sent } = clientOf(answer);
    const verdict = await confirmWith(client)({ resource: "r", fence: 7, job });
    return { verdict, asked: sent.map(({ method, url }) => `${method} ${url}`) };
  };
  const asked = ["GET http://test/api/v1/jobs/j"];

  test.each([
    ["claimed", "current"],
    ["ready", "superseded"],
    ["reported", "superseded"],
    ["held", "superseded"],
  ])("that is %s: %s", async (state, verdict) => {
    expect(await confirmed(() => Response.json({ state }))).toEqual({ verdict, asked });
  });

  test.each([
    ["that is not there", said("job_not_found"), "superseded"],
    ["that a proxy does not find", proxy(404), "superseded"],
    ["with a key that may not", said("forbidden"), "unknown"],
    ["without its store", said("store_unavailable"), "unknown"],
    ["over a lost connection", () => Promise.reject(new TypeError("lost")), "unknown"],
  ] as const)("%s, once", async (_, answer, verdict) => {
    expect(await confirmed(answer)).toEqual({ verdict, asked });
  });

  test("is not asked about a holder that has no job", async () => {
    const { client, sent } = clientOf();
    expect(await confirmWith(client)({ resource: "r", fence: 7, job: undefined })).toBe("current");
    expect(sent).toEqual([]);
  });

  test("breaks as the program does", async () => {
    const broken = { call: () => Promise.reject(new RangeError("a mistake")) } as never;
    await expect(confirmWith(broken)({ resource: "r", fence: 7, job: "j" })).rejects.toThrow(RangeError);
    const lost = new InterlockConnectionError({ asked: "a", url: "b", reason: "timeout", what: "c" });
    const late = { call: () => Promise.reject(lost) } as never;
    expect(await confirmWith(late)({ resource: "r", fence: 7, job: "j" })).toBe("unknown");
  });
});

describe("before a server", () => {
  const refusal = async (status: 400 | 503) => {
    const guard = fenceGuard(status === 503 ? { confirm: async () => "unknown" as const } : {});
    const headers = status === 503 ? fields : {};
    const sent: unknown[] = [];
    const reply = {
      code: (code: number) => sent.push(code),
      header: (name: string, value: string) => sent.push([name, value]),
      send: (text: string) => sent.push(JSON.parse(text)),
    };
    expect(await guard.fastify({ headers }, reply)).toBe(reply);
    const seen: unknown[] = [];
    await new Promise<void>((resolve) => {
      const response = {
        statusCode: 200,
        setHeader: (name: string, value: string) => seen.push([name, value]),
        end(text: string) {
          seen.unshift(response.statusCode);
          seen.push(JSON.parse(text));
          resolve();
        },
      };
      guard.express({ headers }, response, () => resolve());
    });
    expect(seen).toEqual(sent);
    return sent;
  };

  test("both kinds answer with the status, the media type and the problem, and say when to come again", async () => {
    const type = ["content-type", "application/problem+json"];
    const [status, ...rest] = await refusal(400);
    expect([status, rest[0], rest.length]).toEqual([400, type, 2]);
    const again = await refusal(503);
    expect(again.slice(0, 3)).toEqual([503, type, ["retry-after", "1"]]);
    expect(again[3]).toMatchObject({ code: "fence_unconfirmed" });
  });

  test("a call that may pass goes on, and nothing is written", async () => {
    const nothing = new Proxy({}, { get: () => expect.unreachable() });
    expect(await fenceGuard().fastify({ headers: fields }, nothing as never)).toBeUndefined();
    const error = await new Promise((resolve) => {
      fenceGuard().express({ headers: fields }, nothing as never, resolve);
    });
    expect(error).toBeUndefined();
  });
});
