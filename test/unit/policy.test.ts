// Which policies a run follows: shares by hash that are stable and grow, and the order of the layers.
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { renewalRuleBy, renewalRuleFor } from "../../src/domain/lock.ts";
import {
  armOf,
  idlePolicies,
  policiesFor,
  policiesSet,
  policyNames,
  policyNeeds,
  settingsFor,
} from "../../src/domain/policy.ts";
import type { Policies, Rollout, TenantSettings } from "../../src/domain/tenant.ts";

const process: Policies = {
  "admission.strategy": "atomic",
  "admission.wait": "jitter",
  "results.strategy": "handoff",
  "results.wait": "jitter",
  "renewal.policy": "by_risk",
};

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
    expect(policiesSet(settingsFor(policies) as TenantSettings)).toEqual(policies);
    expect(settingsFor({ "results.wait": undefined })).toEqual({ resultsWait: undefined });
    expect(policyNames).toHaveLength(5);
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
    idlePolicies(own, { process, platform, tenant }).map(
      ({ name, needs }) => `${name} needs ${needs.name}=${needs.value}`,
    );

  test.each([
    [{ admissionWait: "fixed" }, ["admission.wait needs admission.strategy=lock"]],
    [{ resultsWait: "fixed" }, ["results.wait needs results.strategy=retry"]],
    [{ renewalPolicy: "continue" }, ["renewal.policy needs results.strategy=retry"]],
    [{ rollout: forAll({ "renewal.policy": "fence" }) }, ["renewal.policy needs results.strategy=retry"]],
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
    const listed = [...guide.matchAll(/^\| `([\w.]+)` \| `([\w.]+)` `(\w+)` \|$/gm)];
    const needed = Object.entries(policyNeeds).map(([name, needs]) => [name, needs?.name, needs?.value]);
    expect(listed.map(([, ...row]) => row)).toEqual(needed);
  });
});
