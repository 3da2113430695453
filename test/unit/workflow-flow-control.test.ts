// What a definition says of gates, priority, fairness and queues: how it is read, and every mistake with its place.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { parseTenantId, type TenantId } from "../../src/domain/tenant.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";
import { limitsIn } from "../../src/domain/workflow/flow-control.ts";
import { judgeDefinition } from "../../src/domain/workflow/judge.ts";

type Header = { readonly [name: string]: JsonValue };

const tenant = parseTenantId("acme") as TenantId;
const withSteps = (header: Header): JsonValue => ({
  id: "tickets",
  ...header,
  steps: { one: { topic: "work" } },
});

function problemsOf(header: Header) {
  const reading = readDefinition(withSteps(header));
  return reading.kind === "invalid" ? reading.problems.map(({ path, message }) => `${path}: ${message}`) : [];
}

function flowControlOf(header: Header) {
  const reading = readDefinition(withSteps(header));
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  return reading.definition.flowControl;
}

test("a definition without gates, priority, fairness and queue has no flow control", () => {
  expect(flowControlOf({})).toBeUndefined();
});

test("gates, priority, fairness and queue are read with the defaults of what is absent", () => {
  const read = flowControlOf({
    concurrency: [
      { key: "${input.customer}", max: 1, at_limit: "queue" },
      { max: 20 },
      { name: "crm", at_limit: "queue" },
    ],
    priority: "${input.vip ? 8 : 5}",
    fairness: { key: "${input.customer}" },
    queue: { deadline_sec: 600, max: 100, aging_sec: 30 },
  });
  expect(read).toMatchObject({
    gates: [
      { kind: "own", path: "concurrency[0]", max: 1, atLimit: "queue", key: { path: "concurrency[0].key" } },
      { kind: "own", max: 20, atLimit: "reject" },
      { kind: "named", name: "crm", atLimit: "queue" },
    ],
    priority: { path: "priority" },
    fairness: { weight: 1 },
    queueMax: 100,
    deadlineMs: 600_000,
    agingMs: 30_000,
  });
  expect(flowControlOf({ priority: 0 })).toMatchObject({ gates: [], priority: 0 });
  expect(flowControlOf({ queue: {} })).toMatchObject({ priority: 5 });
});

test("the limits of a workflow are those of its own gates, by key", () => {
  const limits = limitsIn(
    flowControlOf({ concurrency: [{ key: "${input.customer}", max: 3 }, { max: 20 }, { name: "crm" }] }),
  );
  expect(Object.values(limits).sort()).toEqual([20, 3]);
  expect(limits["-"]).toBe(20);
});

test("a gate that is written twice is one gate", () => {
  const gate = { key: "${input.customer}", max: 1, at_limit: "queue" };
  expect(flowControlOf({ concurrency: [gate, gate] })?.gates).toHaveLength(1);
});

describe("a mistake is reported with its place", () => {
  test.each<readonly [string, Header, string]>([
    [
      "five gates",
      { concurrency: Array(5).fill({ name: "crm" }) },
      "concurrency: has at most 4 gates, not 5",
    ],
    ["a gate that is no object", { concurrency: ["crm"] }, "concurrency[0]: must be an object"],
    ["a gate without a limit", { concurrency: [{}] }, "concurrency[0].max: a gate without a name needs it"],
    [
      "a limit of zero",
      { concurrency: [{ max: 0 }] },
      "concurrency[0].max: must be a whole number from 1 to 1000000",
    ],
    [
      "a negative limit",
      { concurrency: [{ max: -1 }] },
      "concurrency[0].max: must be a whole number from 1 to 1000000",
    ],
    [
      "half a run",
      { concurrency: [{ max: 1.5 }] },
      "concurrency[0].max: must be a whole number from 1 to 1000000",
    ],
    [
      "an unknown answer",
      { concurrency: [{ max: 1, at_limit: "wait" }] },
      "concurrency[0].at_limit: must be one of reject, queue, cancel_in_progress, replace_queued",
    ],
    [
      "an unknown field",
      { concurrency: [{ max: 1, limit: 2 }] },
      "concurrency[0].limit: this field is unknown",
    ],
    [
      "a limit of a named gate",
      { concurrency: [{ name: "crm", max: 2 }] },
      "concurrency[0].max: a named gate has none: its limit is in the tenant's settings (gates)",
    ],
    [
      "a key of a named gate",
      { concurrency: [{ name: "crm", key: "${input.a}" }] },
      "concurrency[0].key: a named gate has none: it is shared as a whole",
    ],
    [
      "superseding at a named gate",
      { concurrency: [{ name: "crm", at_limit: "replace_queued" }] },
      "concurrency[0].at_limit: must be reject or queue: runs of other workflows pass a named gate, too",
    ],
    [
      "a name with a space",
      { concurrency: [{ name: "the crm" }] },
      "concurrency[0].name: must be letters, digits, dots, dashes and underscores, starting with a letter or digit",
    ],
    [
      "two limits of one gate",
      { concurrency: [{ max: 1 }, { max: 2 }] },
      "concurrency[1]: is the gate of concurrency[0], with another max or at_limit",
    ],
    [
      "a constant key",
      { concurrency: [{ max: 1, key: "acme" }] },
      'concurrency[0].key: must be a text with a template, such as "${input.customer}"',
    ],
    [
      "an empty key",
      { concurrency: [{ max: 1, key: "" }] },
      'concurrency[0].key: must be a text with a template, such as "${input.customer}"',
    ],
    [
      "a key that reads a step",
      { concurrency: [{ max: 1, key: "${steps.one.output}" }] },
      "concurrency[0].key: is evaluated before the run begins: it may read only input",
    ],
    [
      "a key that reads ctx",
      { concurrency: [{ max: 1, key: "${ctx.a}" }] },
      "concurrency[0].key: is evaluated before the run begins: it may read only input",
    ],
    [
      "a key that reads an item",
      { concurrency: [{ max: 1, key: "${item}" }] },
      "concurrency[0].key: is evaluated before the run begins: it may read only input",
    ],
    ["a priority of ten", { priority: 10 }, "priority: must be a whole number from 0 to 9"],
    ["a negative priority", { priority: -1 }, "priority: must be a whole number from 0 to 9"],
    [
      "a priority in words",
      { priority: "high" },
      'priority: must be a text with a template, such as "${input.customer}"',
    ],
    ["fairness without a key", { fairness: { weight: 2 } }, "fairness.key: fairness needs it"],
    [
      "a weight of zero",
      { fairness: { key: "${input.a}", weight: 0 } },
      "fairness.weight: must be a whole number from 1 to 1000",
    ],
    [
      "a weight of 1,001",
      { fairness: { key: "${input.a}", weight: 1_001 } },
      "fairness.weight: must be a whole number from 1 to 1000",
    ],
    [
      "an unknown field of fairness",
      { fairness: { key: "${input.a}", share: 2 } },
      "fairness.share: this field is unknown",
    ],
    [
      "a negative deadline",
      { queue: { deadline_sec: -1 } },
      "queue.deadline_sec: must be a plain number from 0 to 604800",
    ],
    ["a queue for nobody", { queue: { max: 0 } }, "queue.max: must be a whole number from 1 to 1000000"],
    [
      "a negative span of aging",
      { queue: { aging_sec: -1 } },
      "queue.aging_sec: must be a plain number from 0 to 604800",
    ],
    ["an unknown field of queue", { queue: { length: 3 } }, "queue.length: this field is unknown"],
  ])("%s", (_what, header, problem) => {
    expect(problemsOf(header)).toEqual([problem]);
  });

  test("all of them at once", () => {
    expect(
      problemsOf({ concurrency: [{ max: 0 }, { max: 1, key: "${" }], priority: 12, queue: 4 }),
    ).toHaveLength(4);
  });
});

test("a verdict names the gates that are shared, with their lines, and the limits of the others", () => {
  const text = "id: tickets\nconcurrency:\n  - name: crm\n  - max: 7\nsteps: { one: { topic: work } }\n";
  const sent = { bytes: Buffer.from(text), format: "yaml" } as const;
  const verdict = judgeDefinition(sent, { tenant, newId: () => "new" });
  expect(verdict).toMatchObject({
    kind: "valid",
    namedGates: [{ name: "crm", path: "concurrency[0].name", line: 3 }],
    limits: { "-": 7 },
  });
});
