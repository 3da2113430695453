// Ports for unit tests: virtual time, the memory state behind a scripted network, and a log and metrics that can be read.
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import { createMemoryStore, type MemoryRecords } from "../../src/adapters/memory-store.ts";
import { type Log, type LogFields, type Ports, silentTracer } from "../../src/ports/ports.ts";
import {
  type Answer,
  type CallOptions,
  defaultStoreSettings,
  type Execute,
  executeOn,
  type OperationName,
  type RequestOf,
  type Store,
  type StoreSettings,
  storeFrom,
} from "../../src/ports/store.ts";
import { createKernel, type Kernel } from "../../src/testing/kernel.ts";
import type { ProcessOptions, SimulatedProcess } from "../../src/testing/simulated-process.ts";
import {
  createSimulatedStore,
  type SimulatedStore,
  type SimulatedStoreOptions,
} from "../../src/testing/simulated-store.ts";
import { noStoreFaults } from "../../src/testing/store-link.ts";

/**
 * What becomes of one call. `request_lost` and `reply_lost` are unknown at the call's deadline, without and with the effect;
 * `unavailable` is refused at once. The numbers delay it on its way, and `resetAfterMs` breaks the connection meanwhile:
 * the caller then knows that it will not know, and the request still arrives.
 */
export type Fate =
  | "ok"
  | "request_lost"
  | "reply_lost"
  | "unavailable"
  | { readonly requestAfterMs?: number; readonly replyAfterMs?: number; readonly resetAfterMs?: number };

/** Fates by operation: one for all its calls, a list that ends with `ok`, or by the number of the call (from 1). */
export type Fates = {
  readonly [Name in OperationName]?: Fate | readonly Fate[] | ((nth: number) => Fate);
};

export type RecordedCall = {
  readonly name: OperationName;
  readonly request: RequestOf<OperationName>;
  /** Virtual time of the send. */
  readonly atMs: number;
  /** The kind of the answer, once there is one. */
  answer: string | undefined;
};

export type LogLine = { readonly level: keyof Log; readonly message: string; readonly fields: LogFields };

export type World = {
  readonly kernel: Kernel;
  readonly server: SimulatedStore;
  readonly records: MemoryRecords;
  /** The same state, answering at once and always: for arranging and for looking, from outside all processes. */
  readonly store: Store;
};

export type WorldOptions = Pick<SimulatedStoreOptions, "table" | "onOperation"> & {
  readonly seed?: number;
  /** Up to this long one way, drawn by seed; 0 by default, so that times are exact. */
  readonly travelMsMax?: number;
  readonly settings?: Partial<StoreSettings>;
};

export function createWorld(options: WorldOptions = {}): World {
  const { seed = 1, travelMsMax = 0, ...hooks } = options;
  const settings = { ...defaultStoreSettings, ...options.settings };
  const kernel = createKernel(seed);
  const server = createSimulatedStore(kernel, {
    faults: { ...noStoreFaults, travelMsMax },
    ...hooks,
    settings,
  });
  const { clock } = kernel.process("observer");
  const { records } = server;
  const store = createMemoryStore({ clock, settings, records });
  return { kernel, server, records, store };
}

export type Member = {
  readonly process: SimulatedProcess;
  readonly ports: Ports;
  readonly metrics: MemoryMetrics;
  readonly lines: readonly LogLine[];
  /** Every call this process sent, oldest first. */
  readonly calls: readonly RecordedCall[];
  callsOf(name: OperationName): readonly RecordedCall[];
  /** From now on these fates apply, counted anew. */
  fail(fates: Fates): void;
};

export type MemberOptions = ProcessOptions & {
  readonly failing?: Fates;
  /** Called at the moment of each send, with the number of the call among all (from 1). */
  readonly onSend?: (call: RecordedCall, nth: number) => void;
};

/** A process of this world with ports of its own over the shared state. */
export function join(world: World, name: string, options: MemberOptions = {}): Member {
  const process = world.kernel.process(name, options);
  const lines: LogLine[] = [];
  const calls: RecordedCall[] = [];
  const scripted = new ScriptedStore(world, process, options.failing ?? {});
  const recorded: Execute = async (operation, request, call) => {
    const entry: RecordedCall = { name: operation, request, atMs: world.kernel.nowMs(), answer: undefined };
    calls.push(entry);
    options.onSend?.(entry, calls.length);
    const answer = await scripted.execute(operation, request, call);
    entry.answer = answer.kind;
    return answer;
  };
  const metrics = new MemoryMetrics(100);
  const ports: Ports = {
    store: storeFrom(recorded, async () => {}),
    clock: process.clock,
    random: process.random,
    log: recordingLog(lines),
    metrics,
    tracer: silentTracer,
    instance: name,
  };
  return {
    process,
    ports,
    metrics,
    lines,
    calls,
    callsOf: (operation) => calls.filter((call) => call.name === operation),
    fail: (fates) => scripted.follow(fates),
  };
}

export function recordingLog(lines: LogLine[]): Log {
  const at =
    (level: keyof Log) =>
    (message: string, fields: LogFields = {}) => {
      lines.push({ level, message, fields });
    };
  return { info: at("info"), warn: at("warn"), error: at("error") };
}

/** True when nothing was left to do: no timer, no call on its way. */
export async function isIdle(kernel: Kernel): Promise<boolean> {
  const before = kernel.events();
  const end = await kernel.run({});
  return end.kind === "idle" && kernel.events() === before;
}

class ScriptedStore {
  readonly #world: World;
  readonly #process: SimulatedProcess;
  readonly #execute: Execute;
  #fates: Fates;
  #sent = new Map<OperationName, number>();

  constructor(world: World, process: SimulatedProcess, fates: Fates) {
    this.#world = world;
    this.#process = process;
    this.#execute = executeOn(world.server.connect(process));
    this.#fates = fates;
  }

  follow(fates: Fates): void {
    this.#fates = fates;
    this.#sent = new Map();
  }

  async execute<Name extends OperationName>(
    name: Name,
    request: RequestOf<Name>,
    call: CallOptions,
  ): Promise<Answer<Name>> {
    const fate = this.#nextFate(name);
    if (fate === "ok") return this.#execute(name, request, call);
    if (fate === "unavailable") return { kind: "unavailable", cause: "connection refused" };
    const notAfterMs = call.notAfterMs ?? this.#world.server.timeMs() + Math.ceil(call.deadlineMs);
    return new Promise((resolve) => {
      const settle = (answer: Answer<Name>) => {
        cancelDeadline();
        resolve(answer);
      };
      const unknown = (cause: string) => () => settle({ kind: "unknown", cause, notAfterMs });
      const cancelDeadline = this.#process.clock.timer(call.deadlineMs, unknown("deadline"));
      if (fate === "request_lost") return;
      const { requestAfterMs = 0, replyAfterMs = 0, resetAfterMs } = fate === "reply_lost" ? {} : fate;
      if (resetAfterMs !== undefined) this.#process.deliver(resetAfterMs, unknown("connection reset"));
      this.#world.kernel.after(requestAfterMs, () => {
        void this.#execute(name, request, { ...call, notAfterMs }).then((answer) => {
          if (fate === "reply_lost" || resetAfterMs !== undefined) return;
          this.#process.deliver(replyAfterMs, () => settle(answer));
        });
      });
    });
  }

  #nextFate(name: OperationName): Fate {
    const nth = (this.#sent.get(name) ?? 0) + 1;
    this.#sent.set(name, nth);
    const fates = this.#fates[name];
    if (fates === undefined) return "ok";
    if (typeof fates === "function") return fates(nth);
    return isList(fates) ? (fates[nth - 1] ?? "ok") : fates;
  }
}

function isList(fates: Fate | readonly Fate[]): fates is readonly Fate[] {
  return Array.isArray(fates);
}
