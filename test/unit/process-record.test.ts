// Where two processes on one store must agree, and what is said when they do not.
import { describe, expect, test } from "vitest";
import type { Config } from "../../src/config.ts";
import { recordOf } from "../../src/control/processes.ts";
import { disagreements, examineProcesses } from "../../src/domain/process-record.ts";
import { loadConfig } from "../../src/load-config.ts";

const secret = (letter: string) => letter.repeat(16);

function process(instance: string, overrides: Partial<Config> = {}, roles = ["gateway", "engine"]) {
  return recordOf(loadConfig({ overrides }).config, { instance, version: "1", roles });
}

const levels = (one: Partial<Config>, other: Partial<Config>) =>
  disagreements(process("a", one), process("b", other)).map(({ level }) => level);

describe("two processes", () => {
  test.each([
    ["the same settings", {}, {}, []],
    ["another bus", { "bus.kind": "nats" }, {}, ["fail"]],
    ["other retention", { "store.eventsPerTenantMax": 500 }, {}, ["warn"]],
    ["another audit secret", { "audit.secret": secret("a") }, { "audit.secret": secret("b") }, ["fail"]],
    ["a secret and none", { "audit.secret": secret("a") }, {}, ["fail"]],
    ["a new secret that one does not know", { "audit.secret": `${secret("b")},none` }, {}, ["warn"]],
    [
      "a secret on its way, known to both",
      { "audit.secret": `${secret("b")},${secret("a")}` },
      { "audit.secret": `${secret("a")},${secret("b")}` },
      [],
    ],
    [
      "another signing key",
      { "bus.kind": "nats", "bus.signingKeys": secret("a") },
      { "bus.kind": "nats", "bus.signingKeys": secret("b") },
      ["warn"],
    ],
    [
      "one NATS server, by different users",
      { "bus.kind": "nats", "bus.natsUrls": "nats://one:secret@host:4222" },
      { "bus.kind": "nats", "bus.natsUrls": "nats://two:other@host:4222" },
      [],
    ],
  ] as ReadonlyArray<readonly [string, Partial<Config>, Partial<Config>, readonly string[]]>)(
    "with %s",
    (_what, one, other, expected) => {
      expect(levels(one, other)).toEqual(expected);
      expect(levels(other, one)).toEqual(expected);
    },
  );

  test("are told which setting it is and who has the other value, and no record holds a secret", () => {
    const [own, other] = [
      process("a:1", { "audit.secret": secret("s"), "retention.runDays": 3 }),
      process("b:2", {
        "bus.kind": "nats",
        "bus.signingKeys": secret("k"),
        "bus.natsUrls": "nats://me:hidden@h:1",
      }),
    ];
    const found = disagreements(own, other).map(({ message }) => message);
    expect(found).toEqual([
      "retention.runDays is 3, and b:2 on the same store has 7",
      "bus.kind is in-process, and b:2 on the same store has nats",
      expect.stringMatching(/^audit\.secret is another one than that of b:2/),
    ]);
    expect(JSON.stringify([own, other, found])).not.toMatch(/ssss|kkkk|hidden/);
  });

  test("of which one is of another version compare what both know", () => {
    const { "bus.kind": _, ...older } = process("b").settings;
    expect(disagreements(process("a", { "bus.kind": "nats" }), { ...process("b"), settings: older })).toEqual(
      [],
    );
  });
});

describe("all that live", () => {
  test("lack an engine", () => {
    const gateway = process("a", { "bus.kind": "nats" }, ["gateway"]);
    expect(examineProcesses(gateway, [])).toMatchObject([
      { level: "fail", message: expect.stringMatching(/^no process with the role engine/) },
    ]);
    const engine = process("b", { "bus.kind": "nats" }, ["engine"]);
    expect(examineProcesses(gateway, [engine])).toEqual([]);
  });

  test("share a store, but no bus", () => {
    expect(examineProcesses(process("a"), [])).toEqual([]);
    expect(examineProcesses(process("a"), [process("b")])).toMatchObject([
      { level: "warn", remedy: expect.stringContaining("bus.kind") },
    ]);
  });
});
