// interlock pools, topics: how many jobs may run at once, and workers that are to get no more of them.
import { type Command, InvalidArgumentError } from "commander";
import type { Client } from "../../sdk/client.ts";
import { InterlockApiError } from "../../sdk/client-errors.ts";
import type { Body, Success } from "../../sdk/contract.ts";
import type { Cli, Context } from "../context.ts";
import { showList } from "../output.ts";
import { UsageError } from "../run-program.ts";
import { duration } from "../text.ts";
import { durationMs, wholeNumber } from "../values.ts";

type Pool = Success<"getPool">;
type Topic = Success<"setTopic">;

export function addPoolCommands({ program, does }: Cli): void {
  const pools = program.command("pools").description("groups of workers: their limits, draining them");
  pools
    .command("list", { isDefault: true })
    .description("list the pools that have limits or workers")
    .action(does(listPools));
  pools.command("show").description("show a pool").argument("<pool>").action(does(showPool));
  pools
    .command("set")
    .description("limit a pool; a new name makes a new pool")
    .argument("<pool>")
    .option("--max-running <count>", "how many of its jobs may run at once", wholeNumber)
    .option("--topics <topics>", "the only topics its workers get, separated by commas", topicList)
    .option("--unset <limits...>", "limits to remove: max-running, topics", limitName)
    .addHelpText("after", "\nExample:\n  interlock pools set gpu --max-running 4 --topics render,train")
    .action(does(setPool));
  withWaiting(pools.command("drain"))
    .description("give a pool's workers no new jobs; running jobs continue")
    .argument("<pool>")
    .addHelpText("after", "\nExample:\n  interlock pools drain gpu --wait && sudo reboot")
    .action(does(drainPool));
  pools
    .command("resume")
    .description("give a pool's workers jobs again")
    .argument("<pool>")
    .action(does(resumePool));
  pools
    .command("delete")
    .description("remove a pool's limits; its workers continue")
    .argument("<pool>")
    .action(does(deletePool));
}

export function addTopicCommands({ program, does }: Cli): void {
  const topics = program.command("topics").description("how many jobs of a topic may run at once");
  topics
    .command("list", { isDefault: true })
    .description("list the topics that have a limit or workers, with what runs and waits")
    .action(does(listTopics));
  topics
    .command("set")
    .description("limit how many jobs of a topic run at once")
    .argument("<topic>")
    .requiredOption("--max-running <count>", "how many may run at once", wholeNumber)
    .addHelpText("after", "\nExample:\n  interlock topics set mail.send --max-running 20")
    .action(does(setTopic));
  topics
    .command("delete")
    .description("remove a topic's limit")
    .argument("<topic>")
    .action(does(deleteTopic));
}

function withWaiting(command: Command): Command {
  return command
    .option("--wait", "wait until none of its jobs runs")
    .option(
      "--timeout <time>",
      "with --wait: stop waiting after this long; the pool keeps draining",
      durationMs,
    );
}

const topicList = (text: string) => text.split(",").map((topic) => topic.trim());

const limits = { "max-running": "max_running", topics: "topics" } as const;

function limitName(
  text: string,
  before: readonly (keyof typeof limits)[] = [],
): readonly (keyof typeof limits)[] {
  if (text !== "max-running" && text !== "topics")
    throw new InvalidArgumentError("It must be max-running or topics.");
  return [...before, text];
}

async function listPools(context: Context): Promise<void> {
  const list = await context.client().call("listPools");
  showList(context, list, {
    none: "No pools: no worker was seen lately, and there are no limits.",
    columns: ["pool", "running", "state", "workers", "topics"],
    row: (pool) => [
      pool.name,
      runningOf(pool),
      stateOf(pool),
      pool.workers.length,
      pool.topics === undefined ? "all" : pool.topics.join(" "),
    ],
  });
}

function runningOf({ running, max_running }: Pick<Pool, "running" | "max_running">): string {
  return max_running === undefined ? String(running) : `${running} of ${max_running}`;
}

function stateOf({ drained, draining }: Pool) {
  if (drained) return { text: "drained", tone: "quiet" } as const;
  return draining ? ({ text: "draining", tone: "busy" } as const) : ({ text: "open", tone: "good" } as const);
}

function poolLines({ output }: Context, pool: Pool): string[] {
  return output.facts([
    ["pool", pool.name],
    ["running", runningOf(pool)],
    ["state", stateOf(pool)],
    ["topics", pool.topics === undefined ? "all" : pool.topics.join(" ") || "none: it gets no jobs"],
    ["workers", pool.workers.join(" ") || "none seen lately"],
  ]);
}

async function showPool(context: Context, id: string): Promise<void> {
  const pool = await context.client().call("getPool", { params: { id } });
  context.output.answer(pool, () => poolLines(context, pool));
}

type SetOptions = {
  readonly maxRunning?: number;
  readonly topics?: string[];
  readonly unset?: readonly (keyof typeof limits)[];
};

async function setPool(
  context: Context,
  id: string,
  { maxRunning, topics, unset = [] }: SetOptions,
): Promise<void> {
  const set: Body<"setPool"> = {
    ...(maxRunning === undefined ? {} : { max_running: maxRunning }),
    ...(topics === undefined ? {} : { topics }),
  };
  const removed = Object.fromEntries(unset.map((name) => [limits[name], null]));
  if (Object.keys({ ...set, ...removed }).length === 0)
    throw new UsageError("pools set: give --max-running or --topics, or --unset one of them");
  const pool = await changeOrMake(context.client(), id, set, removed);
  context.output.answer(pool, () => poolLines(context, pool));
}

/** Changes what is there, so that a limit that is not named stays; only a pool that is not there is made. */
async function changeOrMake(
  client: Client,
  id: string,
  set: Body<"setPool">,
  removed: Readonly<Record<string, null>>,
): Promise<Pool> {
  try {
    return await client.call("changePool", { params: { id }, body: { ...set, ...removed } });
  } catch (error) {
    if (!(error instanceof InterlockApiError) || error.code !== "pool_not_found") throw error;
    return client.call("setPool", { params: { id }, body: set });
  }
}

/** A drain takes as long as the jobs that run: nobody needs to know sooner than this. */
const askEveryMs = 500;

type DrainOptions = { readonly wait?: boolean; readonly timeout?: number };

async function drainPool(context: Context, id: string, { wait, timeout }: DrainOptions): Promise<void> {
  const { terminal, output } = context;
  const client = context.client();
  let pool = await client.call("drainPool", { params: { id }, body: { draining: true } });
  const endMs = terminal.nowMs() + (timeout ?? Number.POSITIVE_INFINITY);
  if (wait === true) output.note(`Waiting for ${pool.running} jobs ...`);
  while (wait === true && !pool.drained && terminal.nowMs() < endMs) {
    await new Promise<void>((resolve) => {
      terminal.timer(askEveryMs, resolve);
    });
    pool = await client.call("getPool", { params: { id } });
  }
  const last = pool;
  output.answer(last, () => poolLines(context, last));
  if (wait === true && !last.drained) context.end("timeout");
}

async function resumePool(context: Context, id: string): Promise<void> {
  const pool = await context.client().call("drainPool", { params: { id }, body: { draining: false } });
  context.output.answer(pool, () => poolLines(context, pool));
}

async function deletePool(context: Context, id: string): Promise<void> {
  await context.client().call("removePool", { params: { id } });
  context.output.answer({ name: id, deleted: true }, () => [
    `Deleted the limits of ${id}. Its workers may go on.`,
  ]);
}

async function listTopics(context: Context): Promise<void> {
  const list = await context.client().call("listTopics");
  showList(context, list, {
    none: "No topics: no worker was seen lately, and there are no limits.",
    columns: ["topic", "running", { title: "waiting", align: "right" }, { title: "workers", align: "right" }],
    row: (topic) => [topic.name, runningOf(topic), topic.waiting, topic.workers.length],
  });
}

async function setTopic(
  context: Context,
  id: string,
  { maxRunning }: { readonly maxRunning: number },
): Promise<void> {
  const topic: Topic = await context
    .client()
    .call("setTopic", { params: { id }, body: { max_running: maxRunning } });
  context.output.answer(topic, () => [
    `${topic.name}: ${runningOf(topic)} running, ${topic.waiting} waiting`,
  ]);
}

async function deleteTopic(context: Context, id: string): Promise<void> {
  await context.client().call("removeTopic", { params: { id } });
  context.output.answer({ name: id, deleted: true }, () => [`Deleted the limit of ${id}.`]);
}

export function addWorkerCommands({ program, does }: Cli): void {
  program.command("workers").description("list the workers seen lately").action(does(listWorkers));
}

async function listWorkers(context: Context): Promise<void> {
  const list = await context.client().call("listWorkers");
  showList(context, list, {
    none: "No worker was seen lately.",
    columns: [
      "worker",
      "pool",
      "topics",
      "running",
      "labels",
      "capabilities",
      { title: "seen", align: "right" },
    ],
    row: (worker) => [
      worker.worker_id,
      worker.pool,
      worker.topics.join(" "),
      `${worker.running} of ${worker.places}`,
      Object.entries(worker.labels)
        .map(([name, value]) => `${name}=${value}`)
        .join(" "),
      worker.capabilities.join(" "),
      `${duration(worker.last_seen_ms_ago)} ago`,
    ],
  });
}
