// A night: the table of parts, how the time is shared out, that a part which fails does not stop the next, and the page.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  type Done,
  type NightOptions,
  parseNightOptions,
  planNight,
  type Run,
  read,
  spendNight,
  type Task,
  UsageError,
} from "../../scripts/nightly/night.ts";
import { isGood, nightPage } from "../../scripts/nightly/page.ts";
import { parts } from "../../scripts/nightly/parts.ts";

const root = dirname(dirname(import.meta.dirname));

function optionsOf(...words: string[]): NightOptions {
  const parsed = parseNightOptions(words, "/nights/7");
  if (parsed.kind !== "run") throw new Error("options were asked for");
  return parsed.options;
}

const seed = 12_345_678;
const planOf = (...words: string[]) => planNight(optionsOf(...words), seed);
const named = (tasks: readonly Task[], name: string) => {
  const task = tasks.find(({ part }) => part.name === name);
  if (task === undefined) throw new Error(`there is no ${name}`);
  return task;
};

describe("the table", () => {
  test("has the shares of a whole, each name once, and commands that the package has", () => {
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      scripts: Record<string, string>;
    };
    expect(parts.reduce((sum, { share }) => sum + share, 0)).toBe(100);
    expect(new Set(parts.map(({ name }) => name)).size).toBe(parts.length);
    for (const { words } of planOf()) expect(Object.keys(scripts)).toContain(words[0]);
  });

  test("gives every part minutes, and a new seed to those that have one", () => {
    for (const { part, words } of planOf()) {
      expect(words[1], part.name).toBe("--");
      expect(words, part.name).toContain("--minutes");
      if (part.again !== undefined)
        expect(words.some((word) => word === String(seed) || word === String((seed % 999_999) + 1))).toBe(
          true,
        );
    }
  });

  test.each([
    {
      part: "sim",
      line: "  replay:    npm run sim -- --seed 77 --trace",
      again: "npm run sim -- --seed 77 --trace",
    },
    {
      part: "chaos",
      line: "the same faults again: npm run chaos -- --seed 5 --minutes 3 --durability replicated",
      again: "npm run chaos -- --seed 5 --minutes 3 --durability replicated",
    },
    {
      part: "fuzz",
      line: "  again: npm run fuzz -- --seed 9 --requests 12",
      again: "npm run fuzz -- --seed 9 --requests 12",
    },
    {
      part: "mutation",
      line: "  npm run mutate -- --area domain --mutant 3fa9c17c0b21",
      again: "npm run mutate -- --area domain --mutant 3fa9c17c0b21",
    },
  ])("finds what shows a failure of $part again", ({ part, line, again }) => {
    const run: Run = { end: "failed", output: `before\n${line}\n${line}\nafter`, minutes: 1 };
    expect(read(named(planOf(), part), run).again).toEqual([again]);
  });

  test("shows a failure without such a line again by the part's own command", () => {
    const task = named(planOf(), "soak");
    const run: Run = { end: "failed", output: "VIOLATION: server heap rises by 6.67 MB", minutes: 1 };
    const done = read(task, run);
    expect(done.again).toEqual([`npm run ${task.words.join(" ")}`]);
    expect(done.did).toEqual(["VIOLATION: server heap rises by 6.67 MB"]);
  });
});

describe("the time", () => {
  test("is shared out, with what starting and judging take taken off", () => {
    const tasks = planOf("--hours", "10");
    expect(named(tasks, "sim").minutes).toBeCloseTo(0.4 * 600 - 0.3, 6);
    expect(named(tasks, "chaos").words).toContain("119.00");
    const whole = tasks.reduce((sum, { minutes, part }) => sum + minutes + part.besidesMinutes, 0);
    expect(whole).toBeCloseTo(600, 6);
  });

  test("of a part that hangs ends after half as much again, and some minutes", () => {
    const sim = named(planOf("--hours", "10"), "sim");
    expect(sim.minutesMax).toBeCloseTo(240 * 1.5 + 0.3 + 5, 6);
  });

  test("goes to the parts that are named, in their proportion, and a share of 0 leaves one out", () => {
    const tasks = planOf("--hours", "1", "--shares", "sim=1,chaos=3,fuzz=0,mutation=0,soak=0");
    expect(tasks.map(({ part }) => part.name)).toEqual(["sim", "chaos"]);
    expect(named(tasks, "chaos").minutes).toBeCloseTo(45 - 1, 6);
  });

  test("is never less than a part needs to begin", () => {
    for (const { minutes } of planOf("--hours", "0.01")) expect(minutes).toBeGreaterThanOrEqual(0.2);
  });

  test("must be a number above 0, and shares those of known parts", () => {
    for (const words of [
      ["--hours", "0"],
      ["--hours", "x"],
      ["--shares", "sim"],
      ["--shares", "tea=3"],
      ["--shares", "sim=-1"],
      ["--shares", parts.map(({ name }) => `${name}=0`).join(",")],
      ["--frob"],
    ])
      expect(() => parseNightOptions(words, "")).toThrow(UsageError);
    expect(parseNightOptions(["--help"], "").kind).toBe("help");
  });
});

const passed: Run = { end: "passed", output: "1000 seeds in 3 s\nNo invariant was broken.", minutes: 2 };

describe("the night", () => {
  const tasks = planOf("--hours", "0.1");

  test("goes on after a part that fails and one that cannot be started", async () => {
    const told: number[] = [];
    const done = await spendNight(
      tasks,
      async ({ part }) => {
        if (part.name === "chaos") throw new Error("no such program");
        return part.name === "sim" ? { ...passed, end: "failed" } : passed;
      },
      (soFar) => told.push(soFar.length),
      new AbortController().signal,
    );
    expect(done.map(({ run }) => run.end)).toEqual(["failed", "failed", "passed", "passed", "passed"]);
    expect(done[1]?.run.output).toContain("no such program");
    expect(told).toEqual([0, 1, 2, 3, 4, 5]);
    expect(isGood({ tasks, done })).toBe(false);
  });

  test("that is stopped tells what it has, and begins nothing more", async () => {
    const stopping = new AbortController();
    const perform = async (): Promise<Run> => {
      stopping.abort();
      return { end: "stopped", output: "", minutes: 0.1 };
    };
    const done = await spendNight(tasks, perform, () => {}, stopping.signal);
    expect(done).toHaveLength(1);
    const page = nightPage({ hours: 0.1, seed, commit: "abc", tasks, done, leftBy: () => [] });
    expect(page).toContain("Of 5 parts: 1 stopped from outside, 4 not begun.");
    expect(page.match(/has not run/g)).toHaveLength(4);
    expect(page).not.toContain("To see it again");
  });

  test("is good when every part has run and passed", () => {
    const done: Done[] = tasks.map((task) => read(task, passed));
    expect(isGood({ tasks, done })).toBe(true);
    expect(isGood({ tasks, done: done.slice(1) })).toBe(false);
  });
});

test("the page has every command, what it did, what shows a failure again, and the plots", () => {
  const tasks = planOf("--hours", "0.1", "--shares", "chaos=0,fuzz=0,mutation=0");
  const [sim, soak] = tasks as [Task, Task];
  const broken: Run = {
    ...passed,
    end: "failed",
    output: "10 seeds in 3 s\n  replay: npm run sim -- --seed 4 --trace",
  };
  const done = [read(sim, broken), read(soak, passed)];
  const leftBy = ({ task }: Done) => (task === soak ? ["soak/soak.md", "soak/soak-redis.svg"] : []);
  const page = nightPage({ hours: 0.1, seed, commit: "0123456789", tasks, done, leftBy });
  expect(page).toContain("# A night of 0.1 h on 0123456789, seed 12345678");
  expect(page).toContain("Of 2 parts: 1 found something or did not come to an end.");
  expect(page).toContain(`| sim | 2.0 | **failed** | \`npm run ${sim.words.join(" ")}\` |`);
  expect(page).toContain("10 seeds in 3 s");
  expect(page).toContain("To see it again:\n\n```\nnpm run sim -- --seed 4 --trace\n```");
  expect(page).toContain("![soak/soak-redis.svg](soak/soak-redis.svg)");
  expect(page).toContain("- [soak/soak.md](soak/soak.md)");
});
