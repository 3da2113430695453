// Tests of the setup that precedes every command: its lock, its stamp, its checks and how it runs the command.
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  openSetupCheckout,
  packagesAreCurrent,
  type SetupCheckout,
  type Started,
  scriptUrl,
  stampPath,
  wantedStamp,
  writeProgram,
} from "../support/setup-checkout.ts";

interface Exclusive {
  exclusively<T>(lockPath: string, work: () => Promise<T>, options?: { waitLimitMs: number }): Promise<T>;
}
interface NodeVersion {
  requireNodeVersion(root: string, version?: string): void;
}

const DEADLINE_MS = 15_000;
const { exclusively } = (await import(scriptUrl("exclusive.mjs"))) as Exclusive;
const { requireNodeVersion } = (await import(scriptUrl("node-versions.mjs"))) as NodeVersion;

let checkout: SetupCheckout;
let folder: string;

beforeEach(() => {
  checkout = openSetupCheckout();
  folder = checkout.folder;
});

afterEach(() => checkout.close());

const start = (args: string[]): Started => checkout.start(args);
const startWithSetup = (words: string[], env?: NodeJS.ProcessEnv): Started =>
  checkout.startWithSetup(words, env);

function waitUntil(condition: () => boolean, what: string): Promise<void> {
  return vi.waitFor(() => expect(condition(), what).toBe(true), { timeout: DEADLINE_MS, interval: 10 });
}

function claimOfDeadProcess(): string {
  const { pid } = spawnSync(process.execPath, ["--version"]);
  return `${pid}.1.${randomUUID()}`;
}

describe("the setup lock", () => {
  /** A process that works under the lock until the file `release` exists and fails if it is not alone. */
  function startContender(): Started {
    const script = join(folder, "contender.mjs");
    writeFileSync(
      script,
      `import { existsSync, rmSync, writeFileSync } from "node:fs";
      import { setTimeout as delay } from "node:timers/promises";
      import { exclusively } from ${JSON.stringify(scriptUrl("exclusive.mjs"))};
      await exclusively("setup/lock", async () => {
        writeFileSync("inside", String(process.pid), { flag: "wx" });
        do await delay(5); while (!existsSync("release"));
        rmSync("inside");
        console.log("worked");
      });`,
    );
    return start([script]);
  }

  test("a second process waits, says so, and works after the first has finished", async () => {
    const first = startContender();
    await waitUntil(() => existsSync(join(folder, "inside")), "the first works");
    const second = startContender();
    await waitUntil(
      () => second.stderr().includes("Waiting for another Interlock command"),
      "the second waits",
    );
    expect(second.stderr()).toContain(`process ${first.child.pid}`);
    expect(readFileSync(join(folder, "inside"), "utf8")).toBe(String(first.child.pid));
    writeFileSync(join(folder, "release"), "");
    expect(await Promise.all([first.ended, second.ended])).toEqual([0, 0]);
    expect(second.stdout()).toBe("worked\n");
    expect(readdirSync(join(folder, "setup"))).toEqual([]);
  });

  test("waiters take over from a holder that was killed, and still one at a time", async () => {
    const holder = startContender();
    await waitUntil(() => existsSync(join(folder, "inside")), "the holder works");
    const waiters = [startContender(), startContender(), startContender(), startContender()];
    await waitUntil(() => waiters.every((waiter) => waiter.stderr().includes("Waiting")), "all wait");
    rmSync(join(folder, "inside"));
    writeFileSync(join(folder, "release"), "");
    holder.child.kill("SIGKILL");
    const codes = await Promise.all(waiters.map((waiter) => waiter.ended));
    expect(codes, waiters.map((waiter) => waiter.stderr()).join("")).toEqual([0, 0, 0, 0]);
    expect(readdirSync(join(folder, "setup"))).toEqual([]);
  });

  test("a process that died while taking over is itself taken over from", async () => {
    const [holder, heir] = [claimOfDeadProcess(), claimOfDeadProcess()];
    mkdirSync(join(folder, "setup"));
    symlinkSync(holder, join(folder, "setup", "lock"));
    symlinkSync(heir, join(folder, "setup", `lock.heir.${holder}`));
    writeFileSync(join(folder, "release"), "");
    const contenders = [startContender(), startContender(), startContender()];
    const codes = await Promise.all(contenders.map((contender) => contender.ended));
    expect(codes, contenders.map((contender) => contender.stderr()).join("")).toEqual([0, 0, 0]);
    expect(readdirSync(join(folder, "setup"))).toEqual([]);
  });

  test("the lock of a killed process stays taken while its child still works", async () => {
    const lock = join(folder, "setup", "lock");
    const holder = claimOfDeadProcess();
    mkdirSync(dirname(lock));
    symlinkSync(holder, lock);
    const child = start(["-e", "setInterval(() => {}, 1000)"]).child;
    symlinkSync(`${child.pid}.0.${randomUUID()}`, `${lock}.worker`);
    const refused = exclusively(lock, async () => "worked", { waitLimitMs: 0 });
    await expect(refused).rejects.toThrow(`process ${child.pid} still holds the setup lock`);
    child.kill("SIGKILL");
    expect(await exclusively(lock, async () => "worked", { waitLimitMs: DEADLINE_MS })).toBe("worked");
    expect(readdirSync(dirname(lock))).toEqual([]);
  });

  test("waiting for a live holder ends with an error that names it and the lock", async () => {
    const lock = join(folder, "setup", "lock");
    await exclusively(lock, async () => {
      const second = exclusively(lock, async () => "worked", { waitLimitMs: 0 });
      await expect(second).rejects.toThrow(new RegExp(`process ${process.pid} still holds .*remove ${lock}`));
    });
    expect(existsSync(lock)).toBe(false);
  });

  test("the lock is free again after work that failed", async () => {
    const lock = join(folder, "setup", "lock");
    await expect(exclusively(lock, () => Promise.reject(new Error("no network")))).rejects.toThrow(
      "no network",
    );
    expect(await exclusively(lock, async () => "worked")).toBe("worked");
  });
});

describe("the package stamp", () => {
  beforeEach(() => checkout.prepare());

  /** A stand-in for npm that fails if it is not alone, since two installations at once would clash. */
  function environmentWithNpm(...lines: string[]): NodeJS.ProcessEnv {
    writeProgram(join(folder, "path", "npm"), [
      'mkdir running || exit 9; echo "npm $*" | tee -a calls',
      ...lines,
    ]);
    return { ...process.env, PATH: `${join(folder, "path")}:${process.env.PATH}` };
  }

  test("packages are current until the lock file changes or node_modules goes", () => {
    expect(packagesAreCurrent(folder)).toBe(true);
    writeFileSync(join(folder, "npm-shrinkwrap.json"), '{"changed":true}');
    expect(packagesAreCurrent(folder)).toBe(false);
    writeFileSync(stampPath(folder), wantedStamp(folder));
    expect(packagesAreCurrent(folder)).toBe(true);
    rmSync(join(folder, "node_modules"), { recursive: true });
    expect(packagesAreCurrent(folder)).toBe(false);
  });

  test("two commands at once install once, with dev packages, and say so on stderr only", async () => {
    rmSync(join(folder, "node_modules"), { recursive: true });
    const env = environmentWithNpm("mkdir node_modules", "rmdir running");
    const runs = [startWithSetup(["--", "echo", "ran"], env), startWithSetup(["--", "echo", "ran"], env)];
    expect(await Promise.all(runs.map((run) => run.ended))).toEqual([0, 0]);
    expect(runs.map((run) => run.stdout())).toEqual(["ran\n", "ran\n"]);
    expect(readFileSync(join(folder, "calls"), "utf8")).toBe(
      "npm ci --include=dev --ignore-scripts --no-audit --no-fund\n",
    );
    const output = runs.map((run) => run.stderr()).join("");
    expect(output).toContain("Installing packages (first run, about 10 s) ...\nnpm ci");
    expect(packagesAreCurrent(folder)).toBe(true);
  });

  test("a failed installation shows npm's output, runs nothing and is tried again", async () => {
    rmSync(stampPath(folder));
    const env = environmentWithNpm("echo no such registry; rmdir running; exit 3");
    for (const calls of [1, 2]) {
      const run = startWithSetup(["--", "echo", "ran"], env);
      expect(await run.ended).toBe(1);
      expect(run.stdout()).toBe("");
      expect(run.stderr()).toMatch(/no such registry\n.*npm ci failed with exit code 3/);
      expect(readFileSync(join(folder, "calls"), "utf8").trim().split("\n")).toHaveLength(calls);
    }
    expect(readdirSync(join(folder, ".setup"))).toEqual([]);
  });
});

describe("the Node version check", () => {
  beforeEach(() => checkout.prepare());

  test.each(["20.19.0", "20.20.2", "21.0.0", "22.1.0", "100.0.0"])("Node %s is accepted", (version) => {
    expect(() => requireNodeVersion(folder, version)).not.toThrow();
  });

  test.each(["20.18.9", "20.9.0", "18.20.0", "9.99.0"])("Node %s is refused with advice", (version) => {
    expect(() => requireNodeVersion(folder, version)).toThrow(
      new RegExp(`needs Node >= 20.19, but this is Node ${version}. Install a newer one`),
    );
  });

  test("a command is not run on a Node that is too old", async () => {
    writeFileSync(join(folder, "package.json"), '{"engines":{"node":">=999.1"}}');
    const run = startWithSetup(["--", "echo", "ran"]);
    expect(await run.ended).toBe(1);
    expect(run.stdout()).toBe("");
    expect(run.stderr()).toContain("Interlock needs Node >= 999.1");
  });
});

describe("the command", () => {
  beforeEach(() => checkout.prepare());

  test("it gets its arguments unchanged, and with-setup ends with its exit code", async () => {
    const script = "console.log(JSON.stringify(process.argv.slice(1))); process.exit(7)";
    const args = ["--once", "two words", "", "--", "--servers", "$HOME"];
    const run = startWithSetup(["--", process.execPath, "-e", script, "--", ...args]);
    expect(await run.ended).toBe(7);
    expect(JSON.parse(run.stdout())).toEqual(args);
    expect(run.stderr()).toBe("");
  });

  test("it finds the programs of the installed packages first", async () => {
    writeProgram(join(folder, "node_modules", ".bin", "ls"), ["echo from a package"]);
    const run = startWithSetup(["--", "ls"]);
    expect(await run.ended).toBe(0);
    expect(run.stdout()).toBe("from a package\n");
  });

  test.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
    "it gets %s and may end in its own way",
    async (signal) => {
      const script = `process.on("${signal}", () => { console.log("stopping"); process.exit(42); });
      setInterval(() => {}, 1000); console.log("ready");`;
      const run = startWithSetup(["--", process.execPath, "-e", script]);
      await waitUntil(() => run.stdout() === "ready\n", "the command is ready");
      run.child.kill(signal);
      expect(await run.ended).toBe(42);
      expect(run.stdout()).toBe("ready\nstopping\n");
    },
  );

  test("a command ended by a signal gives 128 and the signal's number", async () => {
    const run = startWithSetup(["--", "sh", "-c", "kill -KILL $$"]);
    expect(await run.ended).toBe(137);
  });

  test("a command that does not exist gives 127 and is named", async () => {
    const run = startWithSetup(["--", "no-such-program"]);
    expect(await run.ended).toBe(127);
    expect(run.stderr()).toContain("cannot run no-such-program");
  });

  test.each([[["echo"]], [["--"]], [["--server", "--", "echo"]]])(
    "the words %j are refused",
    async (words) => {
      const run = startWithSetup(words);
      expect(await run.ended).toBe(2);
      expect(run.stderr()).toContain("usage: node scripts/with-setup.mjs [--servers] -- <command>");
    },
  );
});
