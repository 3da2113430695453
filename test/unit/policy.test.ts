// Which policies a run follows: shares by hash that are stable and grow, and the order of the layers.
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { settings } from "../../src/config.ts";
import { familiesOf } from "../../src/domain/canary-guard.ts";
import { renewalRuleBy, renewalRuleFor } from "../../src/domain/lock.ts";
import {
  armOf,
  combinationProblems,
  idlePolicies,
  type PolicyName,
  policiesFor,
  policiesSet,
  policyNames,
  policyProblem,
  policyTable,
  policyValues,
  processPolicies,
  settingsFor,
} from "../../src/domain/policy.ts";
import type { Policies, Rollout, TenantSettings } from "../../src/domain/tenant.ts";
import { loadConfig } from "../../src/load-config.ts";

const { config } = loadConfig();
const process = processPolicies(config);

const retry: Partial<Policies> = { "results.strategy": "retry" };
const forAll = (policies: Partial<Policies>): Rollout => ({ id: "r", percent: 100, policies });
const forNone = (policies: Partial<Policies>): Rollout => ({ id: "r", percent: 0, policies });

function assign(tenant: TenantSettings, platform: TenantSettings = {}, runId = "run-1") {
  return policiesFor(runId, { process, platform, tenant });
}

describe("the share of a rollout", () => {
  const ids = fc.string({ minLength: 1, maxLength: 40 });
  const percents = fc.integer({ min: 0, max: 1_000 }).map((tenths) => tenths / 10);

  test("is near its percentage, whatever the rollout is called", () => {
    fc.assert(
      fc.property(ids, fc.integer({ min: 1, max: 99 }), (id, percent) => {
        const runs = Array.from({ length: 4_000 }, (_, index) => `p07-${index}`);
        const share = runs.filter((runId) => armOf({ id, percent }, runId) === "canary").length / 40;
        // Six standard deviations of 4,000 draws, in percent.
        expect(Math.abs(share - percent)).toBeLessThan(6 * Math.sqrt((percent * (100 - percent)) / 4_000));
      }),
      { numRuns: 20 },
    );
  });

  test("is the same for a run every time, and a larger percentage only adds runs", () => {
    fc.assert(
      fc.property(ids, fc.uuid(), percents, percents, (id, runId, one, other) => {
        const [low, high] = [Math.min(one, other), Math.max(one, other)];
        const arm = armOf({ id, percent: low }, runId);
        expect(armOf({ id, percent: low }, runId)).toBe(arm);
        if (arm === "canary") expect(armOf({ id, percent: high }, runId)).toBe("canary");
      }),
    );
  });

  test("is nobody at 0 and everybody at 100, and may be a fraction of a percent", () => {
    const runs = Array.from({ length: 20_000 }, (_, index) => `run ${index}`);
    const amount = (percent: number) =>
      runs.filter((runId) => armOf({ id: "x", percent }, runId) === "canary").length;
    expect(amount(0)).toBe(0);
    expect(amount(100)).toBe(runs.length);
    expect(amount(0.5)).toBeGreaterThan(50);
    expect(amount(0.5)).toBeLessThan(170);
  });

  test("is drawn anew by another rollout: nobody is always first", () => {
    const runs = Array.from({ length: 2_000 }, (_, index) => `run ${index}`);
    const both = runs.filter((runId) =>
      ["one", "two"].every((id) => armOf({ id, percent: 10 }, runId) === "canary"),
    );
    expect(both.length).toBeLessThan(60);
  });
});

describe("policies come from", () => {
  test.each<{
    title: string;
    tenant: TenantSettings;
    platform: TenantSettings;
    expected: string;
    source: string;
  }>([
    {
      title: "the process when nobody says anything",
      tenant: {},
      platform: {},
      expected: "handoff",
      source: "process",
    },
    {
      title: "the platform before the process",
      tenant: {},
      platform: { resultsStrategy: "retry" },
      expected: "retry",
      source: "platform",
    },
    {
      title: "the platform's rollout before the platform's setting",
      tenant: {},
      platform: { resultsStrategy: "handoff", rollout: forAll(retry) },
      expected: "retry",
      source: "platform_rollout",
    },
    {
      title: "the tenant before the platform's rollout",
      tenant: { resultsStrategy: "handoff" },
      platform: { rollout: forAll(retry) },
      expected: "handoff",
      source: "tenant",
    },
    {
      title: "the tenant's rollout before the tenant's setting",
      tenant: { resultsStrategy: "handoff", rollout: forAll(retry) },
      platform: { resultsStrategy: "handoff" },
      expected: "retry",
      source: "tenant_rollout",
    },
    {
      title: "the setting for runs that a rollout does not take",
      tenant: { resultsStrategy: "retry", rollout: forNone({ "results.strategy": "handoff" }) },
      platform: {},
      expected: "retry",
      source: "tenant",
    },
  ])("$title", ({ tenant, platform, expected, source }) => {
    const { policies, sources } = assign(tenant, platform);
    expect(policies["results.strategy"]).toBe(expected);
    expect(sources["results.strategy"]).toBe(source);
    expect(policies["admission.strategy"]).toBe("atomic");
  });

  test("a rollout only for the policies it names", () => {
    const { policies } = assign({ resultsWait: "fixed", rollout: forAll(retry) });
    expect(policies).toEqual({ ...process, "results.strategy": "retry", "results.wait": "fixed" });
  });

  test("settings and policies are translated into each other", () => {
    const policies = { "admission.strategy": "lock", "renewal.policy": "fence" } as const;
    expect(policiesSet(settingsFor(policies, {}) as TenantSettings)).toEqual(policies);
    expect(settingsFor({ "results.wait": undefined }, {})).toEqual({ resultsWait: undefined });
    expect(policyNames).toHaveLength(16);
  });

  test("a number the same layers as a choice", () => {
    const name = "results.retry.baseMs";
    const of = (tenant: TenantSettings, platform: TenantSettings = {}) => {
      const { policies, sources } = assign(tenant, platform);
      return [policies[name], sources[name]];
    };
    const [own, shared] = [{ policyNumbers: { [name]: 700 } }, { policyNumbers: { [name]: 800 } }];
    const taken = { rollout: forAll({ [name]: 900 }) };
    expect(of({})).toEqual([500, "process"]);
    expect(of({}, shared)).toEqual([800, "platform"]);
    expect(of({}, { ...shared, ...taken })).toEqual([900, "platform_rollout"]);
    expect(of(own, { ...shared, ...taken })).toEqual([700, "tenant"]);
    expect(of({ ...own, ...taken }, shared)).toEqual([900, "tenant_rollout"]);
    expect(of({ ...own, rollout: forNone({ [name]: 900 }) })).toEqual([700, "tenant"]);
  });

  test("one number beside another, set and cleared by name", () => {
    const before: TenantSettings = { policyNumbers: { "locks.run.waitMs": 0 } };
    const both = settingsFor({ "results.retry.baseMs": 700, "results.strategy": "retry" }, before);
    expect(both).toEqual({
      resultsStrategy: "retry",
      policyNumbers: { "locks.run.waitMs": 0, "results.retry.baseMs": 700 },
    });
    expect(settingsFor({ "results.retry.baseMs": undefined }, both as TenantSettings)).toEqual(before);
    expect(settingsFor({ "locks.run.waitMs": undefined }, before)).toEqual({ policyNumbers: undefined });
    expect(settingsFor({ "results.wait": "fixed" }, before)).toEqual({ resultsWait: "fixed" });
  });
});

describe("a run is counted", () => {
  const platform = { rollout: { ...forAll(retry), id: "platform's" } };

  test("for its tenant's rollout before the platform's, on the side it is on", () => {
    const tenant = { rollout: { ...forNone({ "admission.wait": "fixed" }), id: "tenant's" } };
    expect(assign(tenant, platform).arm).toEqual({ rollout: tenant.rollout, arm: "control" });
    expect(assign({}, platform).arm).toEqual({ rollout: platform.rollout, arm: "canary" });
    expect(assign({}).arm).toBeUndefined();
  });

  test("for the platform's only if its tenant leaves these policies to the platform", () => {
    expect(assign({ resultsStrategy: "retry" }, platform).arm).toBeUndefined();
    expect(assign({ admissionStrategy: "lock" }, platform).arm?.arm).toBe("canary");
  });
});

describe("the renewal policy", () => {
  test("by risk is what the risk class says", () => {
    for (const risk of ["high", "standard", "low"] as const)
      expect(renewalRuleBy("by_risk", risk)).toEqual(renewalRuleFor(risk));
  });

  test("fence lets nothing go on", () => {
    expect(renewalRuleBy("fence", "low")).toEqual(renewalRuleFor("standard"));
    expect(renewalRuleBy("fence", "standard")).toEqual(renewalRuleFor("standard"));
  });

  test("continue lets standard risk go on, and never high risk", () => {
    expect(renewalRuleBy("continue", "standard")).toEqual(renewalRuleFor("low"));
    expect(renewalRuleBy("continue", "high")).toEqual(renewalRuleFor("high"));
    expect(renewalRuleBy("fence", "high")).toEqual(renewalRuleFor("high"));
  });
});

describe("a policy that depends on another", () => {
  const idle = (tenant: TenantSettings, platform: TenantSettings = {}, own = tenant) =>
    idlePolicies(
      own,
      { process, platform, tenant },
      { "approvals.strategy": tenant.approvalsStrategy ?? "atomic", "dispatch.hold": "off" },
    ).map(({ name, needs }) => `${name} needs ${needs.name}=${needs.value}`);
  const numbers = (policyNumbers: NonNullable<TenantSettings["policyNumbers"]>) => ({ policyNumbers });

  test.each([
    [{ admissionWait: "fixed" }, ["admission.wait needs admission.strategy=lock"]],
    [{ resultsWait: "fixed" }, ["results.wait needs results.strategy=retry"]],
    [{ renewalPolicy: "continue" }, ["renewal.policy needs results.strategy=retry"]],
    [{ rollout: forAll({ "renewal.policy": "fence" }) }, ["renewal.policy needs results.strategy=retry"]],
    [numbers({ "results.retry.baseMs": 700 }), ["results.retry.baseMs needs results.strategy=retry"]],
    [
      { ...numbers({ "results.retry.jitterFraction": 0.2 }), resultsStrategy: "retry", resultsWait: "fixed" },
      ["results.retry.jitterFraction needs results.wait=jitter"],
    ],
    [numbers({ "locks.run.pollMs": 50 }), ["locks.run.pollMs needs results.strategy=retry"]],
    [
      {
        rollout: forAll({ "locks.admission.pollMaxMs": 300 }),
        admissionStrategy: "lock",
        admissionWait: "fixed",
      },
      ["locks.admission.pollMaxMs needs admission.wait=jitter"],
    ],
    [numbers({ "locks.approval.waitMs": 0 }), ["locks.approval.waitMs needs approvals.strategy=lock"]],
    [numbers({ "locks.job.waitMs": 0 }), ["locks.job.waitMs needs dispatch.hold=high"]],
  ] as const)("does nothing while no run follows that one: %j", (settings, expected) => {
    expect(idle(settings)).toEqual(expected);
    expect(idle({}, settings, settings)).toEqual(expected);
  });

  test.each([
    [{}, {}],
    [{ admissionStrategy: "lock", resultsStrategy: "handoff" }, {}],
    [{ admissionStrategy: "lock", admissionWait: "fixed" }, {}],
    [{ renewalPolicy: "continue" }, { resultsStrategy: "retry" }],
    [{ resultsWait: "fixed", rollout: forNone(retry) }, {}],
    [{ resultsWait: "fixed" }, { rollout: forNone(retry) }],
    [{ rollout: forNone({ ...retry, "results.wait": "fixed" }) }, {}],
    [numbers({ "results.retry.baseMs": 700 }), { resultsStrategy: "retry" }],
    [{ ...numbers({ "locks.approval.pollMs": 10 }), approvalsStrategy: "lock" }, {}],
    [{ rollout: forNone({ ...retry, "results.retry.jitterFraction": 0.2 }) }, {}],
  ] as const)("acts where a run does, or comes to: %j on %j", (tenant, platform) => {
    expect(idle(tenant, platform)).toEqual([]);
  });

  test.each([
    [
      { renewalPolicy: "continue", resultsStrategy: "handoff" },
      { resultsStrategy: "retry", rollout: forAll(retry) },
    ],
    [
      {
        rollout: forAll({ "renewal.policy": "fence", "results.strategy": "handoff" }),
        resultsStrategy: "retry",
      },
      {},
    ],
  ] as const)("does nothing where only other runs follow that one: %j on %j", (tenant, platform) => {
    expect(idle(tenant, platform)).toEqual(["renewal.policy needs results.strategy=retry"]);
  });

  test("is listed in the guide with what it needs", () => {
    const guide = readFileSync("docs/guide/policies.md", "utf8");
    const quoted = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, word = ""]) => word);
    const rows = [...guide.matchAll(/^\| (`[^|]+`) \| (`[\w.]+` `\w+`(?: and `[\w.]+` `\w+`)?) \|$/gm)];
    const listed = rows.flatMap(([, names = "", needs = ""]) =>
      quoted(names).map((name) => [name, ...quoted(needs)]),
    );
    const needed = policyNames
      .map((name) => [name, ...policyTable[name].needs.flatMap((each) => [each.name, each.value])])
      .filter((row) => row.length > 1);
    expect(listed).toEqual(needed);
  });
});

describe("what a policy may be", () => {
  test("is told in the guide, for every policy", () => {
    const guide = readFileSync("docs/guide/policies.md", "utf8");
    const rows = [...guide.matchAll(/^\| `([\w.]+)` \| ([^|]+) \| [^|`]/gm)].map(([, ...cells]) => cells);
    const told = policyNames.map((name) => {
      const row = policyValues(name);
      if (row.kind === "choice") return [name, row.choices.map((each) => `\`${each}\``).join(", ")];
      return [name, `${row.min} to ${row.max} ${row.unit}`];
    });
    expect(rows).toEqual(told);
  });

  const numbers = policyNames.filter((name) => policyValues(name).kind === "number");

  test("a number is named after its setting and has its bounds", () => {
    expect(numbers).toHaveLength(11);
    for (const name of numbers) {
      const row = settings[name as keyof Policies & keyof typeof settings];
      expect(policyValues(name)).toBe(row);
      expect(process[name]).toBe(row.default);
    }
  });

  test.each(numbers)("%s: both ends are allowed, beyond them and what is no number is refused", (name) => {
    const row = policyValues(name);
    if (row.kind !== "number") throw new Error(row.kind);
    const { min, max, unit } = row;
    for (const value of [min, max]) expect(policyProblem(name, value)).toBeUndefined();
    const wrong = [min - 1, max + 1, Number.NaN, Number.POSITIVE_INFINITY, `${min}`, null, [min]];
    for (const value of unit === "fraction" ? wrong : [...wrong, min + 0.5])
      expect(policyProblem(name, value), String(value)).toMatch(`${min} to ${max} ${unit}, not `);
  });

  test("a choice must be one of its own, and a name one of the table's", () => {
    expect(policyProblem("results.strategy", "retry")).toBeUndefined();
    expect(policyProblem("results.strategy", "lock")).toBe(
      'results.strategy must be handoff or retry, not "lock"',
    );
    expect(policyProblem("results.wait", 500)).toBe("results.wait must be jitter or fixed, not 500");
    for (const name of ["results.deliveriesMax", "locks.run.ttlMs", "toString", ""])
      expect(policyProblem(name, 500)).toMatch(/^there is no policy ".*": it must be one of admission/);
  });

  test("every policy that is measured says by which samples", () => {
    const of = (name: string) => familiesOf([name as PolicyName]).join();
    expect(of("results.retry.baseMs")).toBe("results");
    expect(of("locks.run.waitMs")).toBe("results");
    expect(of("locks.admission.pollMs")).toBe("starts");
    expect(of("locks.approval.waitMs")).toBe("");
    expect(of("locks.job.pollMs")).toBe("");
    expect(of("a policy of a later version")).toBe("");
    expect(familiesOf(["admission.wait", "results.retry.baseMs"])).toEqual(["results", "starts"]);
  });
});

describe("numbers that do not fit each other", () => {
  const tooLong =
    "locks.admission: waitMs 9000 must be below ttlMs 10000 less a tenth: the lease counts from the first try";
  const pollMs = { "locks.admission.pollMs": 200 };

  test.each<[string, TenantSettings, TenantSettings, readonly string[]]>([
    ["are found in one layer", { policyNumbers: { "locks.admission.waitMs": 9_000 } }, {}, [tooLong]],
    ["just before that they fit", { policyNumbers: { "locks.admission.waitMs": 8_999 } }, {}, []],
    [
      "are found between a tenant and the platform",
      { policyNumbers: pollMs },
      { policyNumbers: { "locks.admission.pollMaxMs": 199 } },
      ["locks.admission: pollMaxMs 199 must not be below pollMs 200"],
    ],
    [
      "are found for the runs of two rollouts, however few there are",
      { rollout: forNone(pollMs) },
      { rollout: forNone({ "locks.admission.pollMaxMs": 199 }) },
      [
        "locks.admission: pollMaxMs 199 must not be below pollMs 200",
        "locks.admission: pollMaxMs 160 must not be below pollMs 200",
      ],
    ],
    [
      "a rollout that brings both fits",
      { rollout: forNone({ ...pollMs, "locks.admission.pollMaxMs": 200 }) },
      {},
      [],
    ],
  ])("%s", (_, tenant, platform, problems) => {
    expect(combinationProblems(config, { platform, tenant })).toEqual(problems);
  });
});
