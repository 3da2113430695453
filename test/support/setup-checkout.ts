// A checkout in a folder of its own with a copy of the set-up scripts, and the commands that tests start in it.
import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

type Packages = {
  packagesAreCurrent(root: string): boolean;
  wantedStamp(root: string): string;
  stampPath(root: string): string;
};

const root = dirname(dirname(import.meta.dirname));

export const scriptUrl = (name: string): string => pathToFileURL(join(root, "scripts", "setup", name)).href;

export const { packagesAreCurrent, wantedStamp, stampPath } = (await import(
  scriptUrl("packages.mjs")
)) as Packages;

export type Started = {
  readonly child: ChildProcess;
  readonly stdout: () => string;
  readonly stderr: () => string;
  readonly ended: Promise<number | NodeJS.Signals | null>;
};

export type SetupCheckout = {
  readonly folder: string;
  /** A Node program, in the folder. */
  start(args: string[], env?: NodeJS.ProcessEnv): Started;
  startWithSetup(words: string[], env?: NodeJS.ProcessEnv): Started;
  /** A copy of the scripts, and a stamp that says that its packages are installed. */
  prepare(): void;
  /** Ends what was started and removes the folder. */
  close(): void;
};

export function openSetupCheckout(): SetupCheckout {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "interlock-setup-")));
  const children: ChildProcess[] = [];
  function start(args: string[], env: NodeJS.ProcessEnv = process.env): Started {
    const child = spawn(process.execPath, args, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
    children.push(child);
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (chunk) => {
      stdout += chunk;
    });
    child.stderr.on("data", (chunk) => {
      stderr += chunk;
    });
    const ended = new Promise<number | NodeJS.Signals | null>((resolve) => {
      child.on("close", (code, signal) => resolve(code ?? signal));
    });
    return { child, stdout: () => stdout, stderr: () => stderr, ended };
  }
  return {
    folder,
    start,
    startWithSetup: (words, env) => start([join(folder, "scripts", "with-setup.mjs"), ...words], env),
    prepare() {
      cpSync(join(root, "scripts"), join(folder, "scripts"), { recursive: true });
      writeFileSync(join(folder, "package.json"), '{"engines":{"node":">=20.19"}}');
      writeFileSync(join(folder, "npm-shrinkwrap.json"), "{}");
      mkdirSync(join(folder, "node_modules"));
      writeFileSync(stampPath(folder), wantedStamp(folder));
    },
    close() {
      for (const child of children) child.kill("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export function writeProgram(path: string, lines: string[]): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${["#!/bin/sh", ...lines].join("\n")}\n`);
  chmodSync(path, 0o755);
}
