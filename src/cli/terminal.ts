// What the command has around it: where it writes, what it reads, its folder, its clock and Ctrl-C. Tests bring their own.

import { dirname, relative, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { processEnvironment } from "../load-config.ts";
import { runtime } from "../sdk/runtime.ts";

export type Paper = {
  write(text: string): void;
  readonly isTty: boolean;
  /** How many characters a line has; no end where it is no terminal. */
  readonly columns: number;
};

export type Terminal = {
  readonly stdout: Paper;
  readonly stderr: Paper;
  readInput(): Promise<string>;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Relative settings, such as the data folder, count from here. */
  readonly folder: string;
  /** What the user types counts from here: npm runs scripts in another folder. */
  readonly typedFolder: string;
  /** How the user has called this command, for the commands that it suggests. */
  readonly calledAs: string;
  nowMs(): number;
  /** Calls back once after the time; the answer takes that back. */
  timer(ms: number, callback: () => void): () => void;
  /** Random, for an idempotency key. */
  token(): string;
  /** Listens to Ctrl-C instead of ending at it, until the answer is called. */
  onInterrupt(listener: () => void): () => void;
};

export function processTerminal(): Terminal {
  const env = processEnvironment();
  return {
    stdout: paperOf(process.stdout),
    stderr: paperOf(process.stderr),
    readInput: () => text(process.stdin),
    env,
    folder: process.cwd(),
    typedFolder: typedFolder(),
    calledAs: calledAs(env),
    nowMs: () => runtime.now().wallMs,
    timer: (ms, callback) => runtime.timer(ms, callback),
    token: () => runtime.token(),
    onInterrupt(listener) {
      process.on("SIGINT", listener);
      return () => process.removeListener("SIGINT", listener);
    },
  };
}

function paperOf(stream: NodeJS.WriteStream): Paper {
  return {
    write: (written) => void stream.write(written),
    isTty: stream.isTTY === true,
    get columns() {
      // A terminal that does not know its width says 0.
      return stream.isTTY === true && stream.columns > 0 ? stream.columns : Number.POSITIVE_INFINITY;
    },
  };
}

function calledAs(env: Terminal["env"]): string {
  if (env.npm_lifecycle_event === "interlock") return "npm run interlock --";
  return env.npm_command === "exec" ? "npx --no-install interlock" : "interlock";
}

function typedFolder(): string {
  const { INIT_CWD: typed, npm_package_json: manifest } = processEnvironment();
  // Set by an npm further out, these belong to another command than this one.
  const isOurs = manifest !== undefined && dirname(manifest) === process.cwd();
  return isOurs && typed !== undefined ? typed : process.cwd();
}

/** A path as the user may type it, in the shorter of its two forms. */
export function asTyped(path: string): string {
  const whole = resolve(path);
  const fromHere = relative(typedFolder(), whole) || ".";
  return fromHere.length <= whole.length ? fromHere : whole;
}

/** A path that the user has typed. */
export function fromTyped(path: string): string {
  return resolve(typedFolder(), path);
}

/** As one word of a shell's command line. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
