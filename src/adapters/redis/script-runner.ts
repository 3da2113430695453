// Runs a script where its partition is: by its SHA-1, with its source where Redis does not have it, after redirections.
import type { Partition } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/ports.ts";
import type { Delivery, SendOptions } from "./connection.ts";
import type { Script } from "./scripts.ts";
import { parseRedirection, type Topology } from "./topology.ts";

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
  let command = ["EVALSHA", run.script.sha1, ...run.operands];
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
