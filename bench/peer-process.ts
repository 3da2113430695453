// The processes of a peer: servers that stay until they are stopped, and programs that print their numbers as one line of JSON.
import { type ChildProcess, spawn } from "node:child_process";
import { basename } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

export type PeerServer = { stop(): Promise<void> };

export type PeerServerPlan = {
  readonly program: string;
  readonly args: readonly string[];
  /** Instead of this process's own, but for the PATH. */
  readonly env?: Readonly<Record<string, string>>;
  /** The user and group it runs as, when that must be another. */
  readonly user?: number;
  /** Whether it takes requests by now. */
  isUp(output: string): boolean | Promise<boolean>;
};

const readyWithinMs = 30_000;

export async function startPeerServer(plan: PeerServerPlan): Promise<PeerServer> {
  const { program, args, env = {}, user } = plan;
  const child = spawn(program, args, {
    env: { PATH: process.env.PATH, ...env },
    // A peer's program that reads its input ends with this process.
    stdio: ["pipe", "pipe", "pipe"],
    ...(user === undefined ? {} : { uid: user, gid: user }),
  });
  const ended = endOf(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      output = `${output}${chunk}`.slice(-4_000);
    });
  }
  const stop = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  const deadlineMs = performance.now() + readyWithinMs;
  while (performance.now() < deadlineMs && child.exitCode === null && child.pid !== undefined) {
    if (await plan.isUp(output)) return { stop };
    await delay(50);
  }
  await stop();
  throw new Error(`${basename(program)} did not start:\n${output.trim()}`);
}

/** Runs a program to its end and reads what it printed; on this Node, unless another is named. */
export async function runForNumbers<Name extends string>(
  words: readonly string[],
  node = process.execPath,
): Promise<Readonly<Record<Name, number>>> {
  const child = spawn(node, words, { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.on("data", (chunk) => {
    output += chunk;
  });
  const how = await endOf(child);
  if (how !== 0) throw new Error(`${words.join(" ")} ended with ${how}`);
  return JSON.parse(output) as Readonly<Record<Name, number>>;
}

/** Resolves with its code or signal once its output is read; it never outlives this process. */
function endOf(child: ChildProcess): Promise<number | string> {
  const killAtExit = () => child.kill("SIGKILL");
  process.once("exit", killAtExit);
  return new Promise((resolve) => {
    const end = (how: number | string) => {
      process.removeListener("exit", killAtExit);
      resolve(how);
    };
    child.once("error", (error) => end(error.message));
    child.once("close", (code, signal) => end(code ?? signal ?? "no code"));
  });
}
