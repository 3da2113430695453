// Calls of one operation and partition that are asked in the same turn of the event loop share one script call.
import { type Partition, partitionCount } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/ports.ts";
import type { Answer, CallOptions, RequestOf } from "../../ports/store.ts";
import { atEndOfTurn } from "../system/system.ts";
import { admitCall } from "./admission-calls.ts";
import { tooLate, trouble, troubleOfItem } from "./answers.ts";
import type { Delivery } from "./connection.ts";
import type { Keys, TenantKeys } from "./keys.ts";
import type { StoreTimes } from "./opening.ts";
import { commitCall, deliverCall } from "./run-calls.ts";
import { type GatheredCall, type GatheredName, parseReply, type Reply } from "./script-call.ts";
import { runScript, type ScriptRun, type Scripts } from "./scripts.ts";
import type { Topology } from "./topology.ts";

const calls: { readonly [Name in GatheredName]: GatheredCall<Name> } = {
  admit: admitCall,
  deliver: deliverCall,
  commit: commitCall,
};

export function isGathered(name: string): name is GatheredName {
  return Object.hasOwn(calls, name);
}

/**
 * What one script call holds at most. A start takes about 20 us of Redis and a result 40, on slow machines twice as much: 16
 * of them stay below the 2 ms that a script may take. The other two bound what large items take together; the call that they
 * save costs little beside them.
 */
const itemsMax = 16;
const argumentsMax = 1_500;
const charactersMax = 65_536;

type Gathering = {
  readonly topology: Topology;
  readonly clock: Clock;
  readonly keys: Keys;
  readonly times: StoreTimes;
  readonly scripts: Scripts;
  /** As lua/parts/call-settings.lua describes them. */
  readonly settings: readonly string[];
  /** All these answers are promises: what they wait for. */
  readonly replicas: Pick<ScriptRun, "replicaWaitMs">;
};

type Item<Name extends GatheredName> = {
  readonly request: RequestOf<Name>;
  readonly options: CallOptions;
  readonly askedMs: number;
  readonly notAfterMs: number;
  readonly resolve: (answer: Answer<Name> | Promise<Answer<Name>>) => void;
  readonly reject: (error: unknown) => void;
};

/** A script call while it is gathered. All its items may take the same time, so that it ends when the first one must. */
type Batch<Name extends GatheredName> = {
  readonly name: Name;
  readonly partition: Partition;
  readonly deadlineMs: number;
  readonly askedMs: number;
  /** What follows the script in the command. */
  readonly operands: string[];
  readonly items: Item<Name>[];
  characters: number;
};

/** Where the number of items stands among the operands: after the number of keys and the two keys. */
const countAt = 3;

/** One per operation: what it gathers, by partition. An item never waits for another turn, also not when it is alone. */
export class GatheredCalls<Name extends GatheredName> {
  readonly #name: Name;
  readonly #gathering: Gathering;
  readonly #open = new Array<Batch<Name> | undefined>(partitionCount).fill(undefined);
  #gathered: Batch<Name>[] = [];

  constructor(name: Name, gathering: Gathering) {
    this.#name = name;
    this.#gathering = gathering;
  }

  ask(request: RequestOf<Name>, options: CallOptions): Promise<Answer<Name>> {
    return new Promise((resolve, reject) => {
      const { clock, keys, times } = this.#gathering;
      const owner = keys.forTenant(request.tenant);
      const askedMs = clock.monotonicMs();
      const notAfterMs = options.notAfterMs ?? times.nowMs(owner.partition) + options.deadlineMs;
      this.#add({ request, options, askedMs, notAfterMs, resolve, reject }, owner);
    });
  }

  /** Throws, with nothing added, when the request is one that Redis cannot hold. */
  #add(item: Item<Name>, owner: TenantKeys): void {
    const batch = this.#batchFor(item, owner);
    const { operands } = batch;
    const at = operands.length;
    try {
      const call: GatheredCall<Name> = calls[this.#name];
      operands.push("", String(item.notAfterMs));
      call.push(operands, item.request, owner);
    } catch (error) {
      operands.length = at;
      throw error;
    }
    operands[at] = String(operands.length - at - 1);
    const characters = lengthFrom(operands, at);
    const isRoomFor = operands.length <= argumentsMax && batch.characters + characters <= charactersMax;
    if (batch.items.length > 0 && !isRoomFor) {
      this.#close(batch);
      const own = this.#batchFor(item, owner);
      for (const operand of operands.splice(at)) own.operands.push(operand);
      own.items.push(item);
      own.characters = characters;
      return;
    }
    batch.items.push(item);
    batch.characters += characters;
    if (batch.items.length >= itemsMax) this.#close(batch);
  }

  #batchFor({ options, askedMs }: Item<Name>, { partition, start, due }: TenantKeys): Batch<Name> {
    const { deadlineMs } = options;
    const open = this.#open[partition];
    if (open?.deadlineMs === deadlineMs) return open;
    const operands = ["2", start, due, "", ...this.#gathering.settings];
    const batch = { name: this.#name, partition, deadlineMs, askedMs, operands, items: [], characters: 0 };
    if (this.#gathered.length === 0) atEndOfTurn(() => this.#sendAll());
    this.#gathered.push(batch);
    this.#open[partition] = batch;
    return batch;
  }

  #close({ partition }: Batch<Name>): void {
    this.#open[partition] = undefined;
  }

  #sendAll(): void {
    const gathered = this.#gathered;
    this.#gathered = [];
    for (const batch of gathered) {
      this.#close(batch);
      if (batch.items.length > 0) this.#send(batch);
    }
  }

  #send(batch: Batch<Name>): void {
    const { topology, clock, scripts, replicas } = this.#gathering;
    const { name, partition, operands, items } = batch;
    operands[countAt] = String(items.length);
    const withinMs = batch.deadlineMs - (clock.monotonicMs() - batch.askedMs);
    const run = { partition, script: scripts[name], operands, withinMs, ...replicas };
    runScript(topology, clock, run).then(
      (delivery) => this.#hear(batch, delivery),
      (error: unknown) => {
        for (const { reject } of items) reject(error);
      },
    );
  }

  #hear({ partition, items }: Batch<Name>, delivery: Delivery): void {
    const [, storeTime, replies] = (delivery.kind === "reply" ? delivery.reply : []) as BatchReply;
    if (storeTime !== undefined) this.#gathering.times.learn(partition, Number(storeTime));
    for (const [index, item] of items.entries()) {
      try {
        item.resolve(
          delivery.kind === "reply"
            ? this.#read(item, replies?.[index])
            : trouble(this.#name, delivery, item.notAfterMs),
        );
      } catch (error) {
        item.reject(error);
      }
    }
  }

  #read(item: Item<Name>, reply: Reply = ["failed", "", "no answer"]): Answer<Name> | Promise<Answer<Name>> {
    const [kind, storeTime, message] = reply;
    if (kind === "failed") return troubleOfItem(this.#name, String(message));
    const storeTimeMs = Number(storeTime);
    if (kind === "too_late") return this.#askAgain(item, storeTimeMs);
    return { ...parseReply<Name>(calls[this.#name], reply, item.request), storeTimeMs };
  }

  /** Our estimate of the store's time was wrong. The refusal carried the right one and had no effect: ask once more. */
  #askAgain({ request, options, askedMs }: Item<Name>, storeTimeMs: number) {
    const leftMs = Math.floor(options.deadlineMs - (this.#gathering.clock.monotonicMs() - askedMs));
    if (options.notAfterMs !== undefined || leftMs <= 0) return tooLate;
    return this.ask(request, { deadlineMs: leftMs, notAfterMs: storeTimeMs + leftMs });
  }
}

type BatchReply = readonly [kind?: string, storeTimeMs?: string, replies?: readonly Reply[]];

function lengthFrom(operands: readonly string[], first: number): number {
  let length = 0;
  for (let index = first; index < operands.length; index += 1) length += operands[index]?.length ?? 0;
  return length;
}
