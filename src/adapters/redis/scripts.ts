// Scripts: read from their Lua files once, known by their SHA-1 as Redis does, and run where their partition is.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Partition } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/ports.ts";
import { type OperationName, operationNames } from "../../ports/store.ts";
import type { Delivery, SendOptions } from "./connection.ts";
import { parseRedirection, type Topology } from "./topology.ts";

export type Script = { readonly source: string; readonly sha1: string };

export type Scripts = { readonly [Name in OperationName]: Script };

/** Lua sources that replace an operation's own: tests plant bugs with them. */
export type ScriptOverrides = Partial<Readonly<Record<OperationName, string>>>;

export function loadScripts(overrides: ScriptOverrides = {}): Scripts {
  const scripts = operationNames.map((name) => {
    const source = overrides[name] ?? readOperationSource(name);
    return [name, scriptFrom(source)];
  });
  return Object.fromEntries(scripts) as Scripts;
}

/** The text of a script, or of a part: `parts/<name>`. The tests of the scripts read other texts. */
type ReadText = (fileName: string) => string;

/** The source behind an operation: `acquireLock` is in `lua/acquire-lock.lua`. */
export function readOperationSource(name: OperationName, textOf: ReadText = readText): string {
  return readSource(
    name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
    textOf,
  );
}

/** A script that is no operation of the port: the ones that open and migrate a partition. */
export function loadScript(fileName: string): Script {
  return scriptFrom(readSource(fileName, readText));
}

function readSource(fileName: string, textOf: ReadText): string {
  const include = (_line: string, part: string) => readPart(part, textOf);
  return textOf(fileName).replaceAll(/^ *--@include ([a-z-]+)$/gm, include);
}

/** Scripts share pieces by inclusion: the text takes the place of the line, without its own first line and header. */
function readPart(name: string, textOf: ReadText): string {
  return readSource(`parts/${name}`, textOf).replace(/^#!lua\n--\[\[[\s\S]*?\]\]\n/, "");
}

function readText(fileName: string): string {
  return readFileSync(new URL(`./lua/${fileName}.lua`, import.meta.url), "utf8");
}

function scriptFrom(source: string): Script {
  return { source, sha1: createHash("sha1").update(source).digest("hex") };
}

export type ScriptRun = {
  readonly partition: Partition;
  readonly script: Script;
  /** What follows the script in the command: the number of keys, the keys, the arguments. */
  readonly operands: readonly string[];
  readonly withinMs: number;
  /** The answer waits for a replica, at most so long. */
  readonly replicaWaitMs?: number;
};

/** Slots that move back and forth send a command back and forth. */
const redirectionsMax = 5;

/**
 * Sends again only what was certainly not executed: a script that Redis does not know, or a redirection. Anything else
 * is answered as it is.
 */
export async function runScript(topology: Topology, clock: Clock, run: ScriptRun): Promise<Delivery> {
  const endMs = clock.monotonicMs() + run.withinMs;
  let connection = topology.connectionFor(run.partition);
  // Spread out, the 300 operands of a call that many starts share are copied five times as slowly.
  let command = ["EVALSHA", run.script.sha1].concat(run.operands);
  const replicas = run.replicaWaitMs === undefined ? {} : { replicaWaitMs: run.replicaWaitMs };
  let options: SendOptions = replicas;
  let delivery = await connection.send(command, run.withinMs, options);
  for (let sends = 0; delivery.kind === "error" && sends <= redirectionsMax; sends += 1) {
    const redirection = parseRedirection(delivery.message);
    if (redirection !== undefined) {
      connection = topology.follow(run.partition, redirection);
      options = redirection.kind === "ask" ? { ...replicas, preamble: ["ASKING"] } : replicas;
    } else if (delivery.message.startsWith("NOSCRIPT")) {
      command = ["EVAL", run.script.source, ...run.operands];
    } else {
      break;
    }
    const leftMs = endMs - clock.monotonicMs();
    if (leftMs <= 0) return { kind: "not_sent", cause: "no time left to follow a redirection" };
    delivery = await connection.send(command, leftMs, options);
  }
  if (isSuspicious(delivery)) topology.suspect();
  return delivery;
}

/** A server that refuses to write may have been replaced as the master. */
function isSuspicious(delivery: Delivery): boolean {
  if (delivery.kind === "error")
    return /^(READONLY|MASTERDOWN|LOADING|CLUSTERDOWN|NOREPLICAS)\b/.test(delivery.message);
  return delivery.kind !== "reply";
}

/** Each of these is answered instead of running the script, so that nothing has happened. */
const refusedBefore = [
  "OOM",
  "LOADING",
  "READONLY",
  "BUSY",
  "CLUSTERDOWN",
  "TRYAGAIN",
  "MASTERDOWN",
  "NOREPLICAS",
  "NOAUTH",
  "NOPERM",
  "MISCONF",
  "MOVED",
  "ASK",
];

/**
 * The cause of a refusal without effect, or undefined when the error came out of the script. Scripts read every key
 * before they write the first one, so that meeting a key which is just moving to another node is such a refusal too.
 */
export function refusalWithoutEffect(message: string): string | undefined {
  const isMoving = refusalWhileMoving(message);
  if (isMoving !== undefined) return isMoving;
  const [code = ""] = message.split(" ", 1);
  return refusedBefore.includes(code) && !cameFromScript(message) ? message : undefined;
}

/** The one refusal that an item of a script call can meet by itself. */
export function refusalWhileMoving(message: string): string | undefined {
  const isMoving = message.includes("attempted to access a non local key");
  return isMoving ? "the slot is moving to another server" : undefined;
}

/** Redis adds the script and the line to every error of a command inside one. */
function cameFromScript(message: string): boolean {
  return message.includes("on @user_script:");
}
