// npm run nightly: hours of fresh seeds, chaos, fuzzing, mutations and soak in shares, and one page with what they found.
import { execFileSync, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { createWriteStream, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import {
  type Done,
  type NightOptions,
  parseNightOptions,
  planNight,
  type Run,
  spendNight,
  type Task,
  UsageError,
} from "./night.ts";
import { isGood, nightPage } from "./page.ts";

const root = dirname(dirname(import.meta.dirname));

/** What a part may take to end when it is asked to, before it is killed. */
const graceMs = 20_000;
/** The end of an output has what it found; all of it is in the log. */
const outputMax = 4_000_000;

async function main(options: NightOptions, seed: number): Promise<number> {
  const folder = resolve(options.folder);
  const tasks = planNight({ ...options, folder }, seed);
  const git = (...words: string[]) => execFileSync("git", words, { cwd: root, encoding: "utf8" }).trim();
  const commit = git("rev-parse", "--short=10", "HEAD");
  const stopping = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => stopping.abort());
  const path = join(folder, "night.md");
  mkdirSync(folder, { recursive: true });
  const leftBy = ({ task }: Done) =>
    ["output.log", ...(task.part.leaves ?? [])]
      .map((name) => join(task.part.name, name))
      .filter((name) => existsSync(join(folder, name)));
  const tell = (done: readonly Done[]) => {
    writeFileSync(path, nightPage({ hours: options.hours, seed, commit, tasks, done, leftBy }));
    const last = done.at(-1);
    if (last === undefined) return;
    console.log(`${last.task.part.name}: ${last.run.end} after ${last.run.minutes.toFixed(1)} minutes`);
    for (const line of last.again.slice(0, 10)) console.log(`  ${line}`);
  };
  console.log(`${options.hours} h of ${tasks.map(({ part }) => part.name).join(", ")}; the page: ${path}`);
  const done = await spendNight(tasks, (task) => perform(task, stopping.signal), tell, stopping.signal);
  return isGood({ done, tasks }) ? 0 : 1;
}

/** In a group of processes of its own, so that whatever it has started ends with it. */
function perform({ words, folder, minutesMax, part }: Task, stopping: AbortSignal): Promise<Run> {
  console.log(`${part.name}: npm run ${words.join(" ")}`);
  mkdirSync(folder, { recursive: true });
  const log = createWriteStream(join(folder, "output.log"));
  const beganMs = performance.now();
  const child = spawn("npm", ["run", "--silent", ...words], {
    cwd: root,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let cut: "took too long" | "stopped" | undefined;
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      log.write(chunk);
      output = `${output}${chunk.toString()}`.slice(-outputMax);
    });
  }
  let killing: NodeJS.Timeout | undefined;
  const end = (because: typeof cut) => {
    cut ??= because;
    signalGroup(child.pid, "SIGTERM");
    killing ??= setTimeout(() => signalGroup(child.pid, "SIGKILL"), graceMs);
  };
  const late = setTimeout(() => end("took too long"), minutesMax * 60_000);
  const stop = () => end("stopped");
  stopping.addEventListener("abort", stop);
  return new Promise((settle, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(late);
      clearTimeout(killing);
      stopping.removeEventListener("abort", stop);
      log.end();
      settle({
        end: cut ?? (code === 0 ? "passed" : "failed"),
        output,
        minutes: (performance.now() - beganMs) / 60_000,
      });
    });
  });
}

function signalGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // The group has ended meanwhile.
  }
}

try {
  const seed = randomInt(10_000_000, 1_000_000_000);
  const parsed = parseNightOptions(process.argv.slice(2), join(import.meta.dirname, "results", String(seed)));
  if (parsed.kind === "help") console.log(parsed.text);
  else process.exitCode = await main(parsed.options, seed);
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
