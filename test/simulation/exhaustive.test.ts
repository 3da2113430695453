// Every schedule of every small scenario within a bound, the planted bugs that must be found in them, and the command.
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { exhaust, exploreScenario, replaySchedule, scenarios } from "../../proof/exhaustive/exhaust.ts";
import { swaps } from "../../proof/planted/planted-bugs.ts";

const root = dirname(dirname(import.meta.dirname));
const timeoutMs = 300_000;

/** All of them together take about 10 s on one core; `npm run sim -- --exhaustive --bound 2` goes further. */
const boundOf = (name: string) =>
  ["same_key", "different_keys", "fingerprints", "start_and_end"].includes(name) ? 1 : 0;

const within = (overtakesMax: number) => ({ overtakesMax, faultsMax: 1, schedulesMax: 20_000 });

describe("small scenarios", () => {
  test.each(Object.keys(scenarios).map((name) => [name, boundOf(name)] as const))(
    "%s keeps every invariant in all schedules with one fault and %i events overtaken",
    async (name, bound) => {
      const { failure, complete, schedules, states } = await exploreScenario(name, within(bound));
      expect(failure).toBeUndefined();
      expect(complete).toBe(true);
      // Each position of each fault is a schedule of its own.
      expect(schedules).toBeGreaterThan(10);
      expect(states).toBeGreaterThan(schedules);
    },
    timeoutMs,
  );

  test(
    "the same schedule gives the same steps",
    async () => {
      const schedule = [0, 0, 1, 0, 2];
      const first = await replaySchedule("results_handoff", schedule);
      expect(first.broken).toBeUndefined();
      expect(await replaySchedule("results_handoff", schedule)).toEqual(first);
      const other = await replaySchedule("results_handoff", [0, 0, 1]);
      expect(other.lines).not.toEqual(first.lines);
    },
    timeoutMs,
  );
});

/** What is planted, where it is found, with how many events overtaken, and what may be the first to notice. */
const found = [
  ["count_then_create", "different_keys", 0, ["INV-1"]],
  ["create_without_limit_check", "lock_against_atomic_limit", 0, ["INV-1"]],
  ["slot_kept_after_end", "start_and_end", 0, ["INV-2"]],
  ["unknown_as_busy", "same_key", 0, ["INV-7", "INV-29"]],
  ["unknown_as_success", "same_key", 0, ["INV-18", "INV-29"]],
  ["unknown_end_as_unavailable", "start_and_end", 0, ["INV-18"]],
  ["cleanup_on_unknown", "same_key", 0, ["INV-6", "INV-7", "INV-10"]],
  ["late_tries_forgotten", "start_and_late_end", 0, ["INV-7"]],
  ["fingerprint_ignored", "fingerprints", 0, ["INV-8"]],
  ["pending_key_never_dies", "same_key_locked", 0, ["INV-19"]],
  ["skip_fence_comparison", "two_lock_users", 0, ["INV-12", "INV-13"]],
  ["release_without_token", "two_lock_users", 1, ["INV-13"]],
  ["acquire_ignores_holder", "same_key_locked", 0, ["INV-12"]],
  ["deadline_after_reply", "two_lock_users", 0, ["INV-14"]],
  ["lock_without_ttl", "same_key_locked", 0, ["INV-12", "INV-13", "INV-15", "INV-19"]],
  ["result_taken_twice", "same_attempt", 0, ["INV-22"]],
  ["unknown_as_delivered", "same_attempt", 0, ["INV-18", "INV-22"]],
  ["proposal_of_any_version", "results_handoff", 0, ["INV-3", "INV-17", "INV-20", "INV-22"]],
  ["attention_not_set", "results_handoff", 0, ["INV-23"]],
  ["cancel_after_end", "cancel_against_result", 0, ["INV-17"]],
  ["decided_twice", "approve_against_reject", 0, ["INV-25"]],
  ["decision_without_entry", "approve_against_reject", 0, ["INV-26"]],
  ["expiry_ignored", "decisions_at_expiry", 0, ["INV-27"]],
] as const;

describe("planted bugs", () => {
  test.each(found)(
    "%s is found in %s, and its schedule can be replayed",
    async (name, scenario, bound, invariants) => {
      const bug = swaps[name];
      expect(bug).toBeDefined();
      const { failure } = await exploreScenario(scenario, within(bound), bug);
      expect(invariants).toContain(failure?.invariant);
      const replayed = await replaySchedule(scenario, failure?.schedule ?? [], bug);
      expect(replayed.broken).toEqual({ invariant: failure?.invariant, what: failure?.what });
      const without = await replaySchedule(scenario, failure?.schedule ?? []);
      expect(without.broken).toBeUndefined();
    },
    timeoutMs,
  );
});

describe("the command", () => {
  const printed: string[] = [];
  beforeEach(() => {
    printed.length = 0;
    const print = (line: string) => void printed.push(line);
    vi.spyOn(console, "log").mockImplementation(print);
    vi.spyOn(console, "error").mockImplementation(print);
  });
  afterEach(() => vi.restoreAllMocks());
  const run = async (...words: string[]) => {
    const status = await exhaust(words);
    return { status, text: printed.join("\n") };
  };

  test("runs by itself, prints what it explored, and exits with 0", () => {
    const program = [join(root, "proof/run-compiled.mjs"), "exhaustive/main"];
    const words = [...program, "--scenario", "same_key", "--bound", "0"];
    const { status, stdout } = spawnSync(process.execPath, words, { cwd: root, encoding: "utf8" });
    expect(stdout).toMatch(
      /^same_key: \d+ schedules, \d+ choice points, \d+ states, [\d.]+ s, complete within bound 0$/m,
    );
    expect(stdout).toContain("No invariant was broken.");
    expect(status).toBe(0);
  });

  test("says when it stopped at the cap", async () => {
    const { status, text } = await run("--scenario", "same_key", "--bound", "0", "--cap", "3");
    expect(text).toMatch(/^same_key: 3 schedules, .*, stopped at the cap$/m);
    expect(status).toBe(0);
  });

  test("prints the steps of a failure and how to replay it, and exits with 1", async () => {
    const { status, text } = await run("--scenario", "start_and_end", "--bug", "slot_kept_after_end");
    expect(text).toContain("broke INV-2");
    expect(text).toMatch(/step gateway-2: commit \(call \d+\)$/m);
    expect(text).toContain(
      "replay: npm run sim -- --exhaustive --scenario start_and_end --schedule 0 --bug slot_kept_after_end",
    );
    expect(status).toBe(1);
  });

  test("replays one schedule with all that happens in it", async () => {
    const { status, text } = await run("--scenario", "same_key", "--schedule", "1");
    expect(text).toContain("step gateway-1: admit (call 1) — the request is lost");
    expect(text).toContain("No invariant was broken.");
    expect(status).toBe(0);
  });

  test.each([
    [["--scenario", "unheard_of"], "There is no scenario unheard_of. There are: same_key,"],
    [["--bound", "many"], "--bound must be a whole number, not many."],
    [["--schedule", "0,1"], "--schedule needs --scenario."],
    [["--bug", "unheard_of"], "There is no bug named unheard_of."],
    [["--fast"], "Unknown option '--fast'"],
  ])("refuses %j with a clear error", async (words, message) => {
    const { status, text } = await run(...words);
    expect(text).toContain(message);
    expect(text).toContain("Usage: npm run sim -- --exhaustive");
    expect(status).toBe(2);
  });
});
