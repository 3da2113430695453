// In which rates a start counts, and which budgets pay for it.
import { expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { planGates } from "../../src/domain/plan-gates.ts";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import { compileDefinition } from "../../src/domain/workflow/compile.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";

const defaults = { queueMax: 1_000, deadlineMs: 3_600_000, agingMs: 60_000 };

function planOf(
  header: { readonly [name: string]: JsonValue },
  input: JsonValue = { customer: "c1" },
  settings: TenantSettings = {},
) {
  const reading = readDefinition({ id: "tickets", ...header, steps: { one: { topic: "work" } } });
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  return planGates(compileDefinition("tickets", reading.definition), { input }, settings, defaults);
}

const perMinute = { limit: 30, per_sec: 60 };
const startRate = { limit: 10, perMs: 1_000, burst: 2, atLimit: "reject" } as const;

test("rates that reject need no plan of gates, and the tenant's comes last", () => {
  const planned = planOf({ rate: [perMinute] }, {}, { startRate });
  expect(planned).toEqual({
    kind: "planned",
    mayWait: false,
    budgets: [],
    rates: [
      { rate: "start.workflow.tickets~60000", limit: 30, perMs: 60_000, burst: 1, atLimit: "reject" },
      { rate: "start.tenant~1000", ...startRate },
    ],
  });
  expect(planOf({}, {}, { startRate })).toMatchObject({
    mayWait: false,
    rates: [{ rate: "start.tenant~1000" }],
  });
});

test("a rate with queue makes a plan of gates, so that the start may wait", () => {
  const own = planOf({ rate: [{ ...perMinute, at_limit: "queue" }] });
  expect(own).toMatchObject({ mayWait: true, plan: { gates: [{ gate: "tenant", atLimit: "reject" }] } });
  const tenants = planOf({}, {}, { startRate: { ...startRate, atLimit: "queue" } });
  expect(tenants).toMatchObject({ mayWait: true, plan: { deadlineMs: 3_600_000 } });
});

test("each value of a key has a rate and a budget of its own", () => {
  const header = {
    rate: [{ ...perMinute, key: "${input.customer}" }],
    budgets: [{ name: "daily", unit: "usd", amount: 1, per: "day", key: "${input.customer}" }],
  };
  const idsOf = (customer: string) => {
    const planned = planOf(header, { customer });
    if (planned.kind !== "planned") throw new Error(planned.kind);
    return [planned.rates[0]?.rate, planned.budgets[0]?.budget];
  };
  expect(idsOf("c1")).toEqual(idsOf("c1"));
  expect(idsOf("c1")[0]).toMatch(/^start\.key\.tickets\.[0-9a-f]{12}\.[0-9a-f]{32}~60000$/);
  expect(idsOf("c1")[1]).toMatch(/^workflow\.tickets\.daily~usd~day\.[0-9a-f]{32}$/);
  const [one, other] = [idsOf("c1"), idsOf("c2")];
  expect(one[0]).not.toBe(other[0]);
  expect(one[1]).not.toBe(other[1]);
});

test("a key that gives nothing for this input is named with its place", () => {
  const answer = planOf({ rate: [{ ...perMinute, key: "${input.customer}" }] }, {});
  expect(answer).toMatchObject({ kind: "start_expression_failed", problems: [{ path: "rate[0].key" }] });
});
