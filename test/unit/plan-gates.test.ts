// Which gates a start passes, in which order, and what is said of expressions that give no key.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { planGates } from "../../src/domain/plan-gates.ts";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import { compileDefinition } from "../../src/domain/workflow/compile.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";

type Header = { readonly [name: string]: JsonValue };

const defaults = { queueMax: 1_000, deadlineMs: 3_600_000, agingMs: 60_000 };

function compiled(header: Header, id = "tickets") {
  const reading = readDefinition({ id, ...header, steps: { one: { topic: "work" } } });
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  return compileDefinition(id, reading.definition);
}

type Asked = { readonly priority?: number; readonly priorityMax?: number };

function planOf(header: Header, input: JsonValue = {}, asked: Asked = {}, settings: TenantSettings = {}) {
  return planGates(compiled(header), { input, ...asked }, settings, defaults);
}

function planned(...given: Parameters<typeof planOf>) {
  const answer = planOf(...given);
  if (answer.kind !== "planned") throw new Error(JSON.stringify(answer.problems));
  return answer;
}

const byCustomer = { key: "${input.customer}", max: 1, at_limit: "queue" };

test("a workflow without gates has a plan only in a tenant that queues", () => {
  expect(planned({ priority: 7 })).toEqual({ kind: "planned", rates: [], budgets: [], mayWait: false });
  expect(planned({ priority: 7 }, {}, {}, { atLimit: "queue" })).toMatchObject({
    mayWait: true,
    plan: { gates: [{ gate: "tenant", atLimit: "queue" }], priority: 7, ...defaults },
  });
});

test("places are taken in one order, whatever order is written, and the tenant's last", () => {
  const gates = [{ name: "crm", at_limit: "queue" }, { max: 20 }, byCustomer];
  const input = { customer: "c1" };
  const one = planned({ concurrency: gates }, input).plan?.gates;
  expect(planned({ concurrency: gates.toReversed() }, input).plan?.gates).toEqual(one);
  expect(one?.map(({ gate }) => gate.split(".")[0])).toEqual(["by-key", "by-workflow", "named", "tenant"]);
});

test("two workflows with the same key have gates of their own, and share a named one", () => {
  const header = { concurrency: [byCustomer, { name: "crm" }] };
  const [one, other] = ["a", "b"].map((id) => {
    const answer = planGates(compiled(header, id), { input: { customer: "c1" } }, {}, defaults);
    return answer.kind === "planned" ? (answer.plan?.gates.map(({ gate }) => gate) ?? []) : [];
  });
  expect(one?.[0]).not.toEqual(other?.[0]);
  expect(one?.[1]).toEqual("named.crm");
  expect(other?.[1]).toEqual("named.crm");
});

test("a number and a truth value are keys as texts; each value has a gate of its own", () => {
  const gateOf = (customer: JsonValue) =>
    planned({ concurrency: [byCustomer] }, { customer }).plan?.gates[0]?.gate;
  expect(gateOf(17)).toEqual(gateOf("17"));
  expect(gateOf(true)).toEqual(gateOf("true"));
  expect(new Set([gateOf(17), gateOf(18), gateOf(true), gateOf("")])).toHaveLength(4);
});

test("only a run that no gate lets wait is admitted as before", () => {
  expect(planned({ concurrency: [{ max: 1 }] }).mayWait).toBe(false);
  for (const at_limit of ["queue", "cancel_in_progress", "replace_queued"])
    expect(planned({ concurrency: [{ max: 1, at_limit }] }).mayWait).toBe(true);
});

describe("the priority", () => {
  const header = { concurrency: [byCustomer], priority: "${input.vip ? 8 : 5}" };
  const priorityOf = (input: JsonValue, asked: Asked = {}) => planned(header, input, asked).plan?.priority;

  test("is what the workflow says of the input", () => {
    expect(priorityOf({ customer: "c", vip: true })).toBe(8);
    expect(priorityOf({ customer: "c", vip: false })).toBe(5);
  });

  test("is the request's own where it brings one, and never more than the key allows", () => {
    expect(priorityOf({ customer: "c", vip: true }, { priority: 2 })).toBe(2);
    expect(priorityOf({ customer: "c", vip: true }, { priority: 9, priorityMax: 6 })).toBe(6);
    expect(priorityOf({ customer: "c", vip: true }, { priorityMax: 6 })).toBe(6);
  });
});

test.each<readonly [string, Header, JsonValue, string, RegExp]>([
  ["a key that is not there", { concurrency: [byCustomer] }, {}, "concurrency[0].key", /gives nothing/],
  [
    "a key that is null",
    { concurrency: [byCustomer] },
    { customer: null },
    "concurrency[0].key",
    /gives nothing/,
  ],
  [
    "a key that is an object",
    { concurrency: [byCustomer] },
    { customer: {} },
    "concurrency[0].key",
    /must give a text/,
  ],
  [
    "a key that is a list",
    { concurrency: [byCustomer] },
    { customer: [1] },
    "concurrency[0].key",
    /must give a text/,
  ],
  [
    "a key that fails",
    { concurrency: [{ max: 1, key: "${input.a / 0}" }] },
    { a: 1 },
    "concurrency[0].key",
    /./,
  ],
  [
    "a fairness key that is not there",
    { concurrency: [{ max: 1 }], fairness: { key: "${input.a}" } },
    {},
    "fairness.key",
    /gives nothing/,
  ],
  [
    "a priority beyond nine",
    { concurrency: [{ max: 1 }], priority: "${input.p}" },
    { p: 10 },
    "priority",
    /whole number from 0 to 9/,
  ],
  [
    "a priority in words",
    { concurrency: [{ max: 1 }], priority: "${input.p}" },
    { p: "high" },
    "priority",
    /whole number from 0 to 9/,
  ],
  [
    "half a priority",
    { concurrency: [{ max: 1 }], priority: "${input.p}" },
    { p: 1.5 },
    "priority",
    /whole number from 0 to 9/,
  ],
])("%s is named with its place", (_what, header, input, path, message) => {
  expect(planOf(header, input)).toMatchObject({
    kind: "start_expression_failed",
    problems: [{ path, message: expect.stringMatching(message) }],
  });
});

test("what evaluating costs is taken from the work of the start", () => {
  const work = { left: 1_000_000 };
  planGates(compiled({ concurrency: [byCustomer] }), { input: { customer: "c" } }, {}, defaults, work);
  expect(work.left).toBeLessThan(1_000_000);
});
