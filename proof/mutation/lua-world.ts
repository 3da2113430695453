// A Redis whose clock is set by the tests, and every conformance case, edge and random sequence that can run on it.

import { createClient } from "@redis/client";
import fc from "fast-check";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import type { ScriptOverrides } from "../../src/adapters/redis/scripts.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { Partition } from "../../src/domain/tenant.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import type { CancelTimer } from "../../src/ports/ports.ts";
import { type OperationName, operationNames, type Store, type StoreSettings } from "../../src/ports/store.ts";
import { checkEdge, edgeSettings } from "../../src/testing/conformance/edge.ts";
import { edges } from "../../src/testing/conformance/edges.ts";
import { Harness } from "../../src/testing/conformance/harness.ts";
import { storeConformance } from "../../src/testing/conformance/store-conformance.ts";
import { compare, differentialSettings } from "../../test/support/differential.ts";
import { heldSequences, sequences, treeSequences } from "../../test/support/differential-commands.ts";
import { SetClock } from "../../test/support/set-clock.ts";
import { clockKeys } from "../../test/support/set-clock-scripts.ts";
import { silentLog } from "../../test/support/silent-log.ts";
import { uniqueText } from "../../test/support/stores.ts";

export type Case = {
  readonly name: string;
  readonly settings: StoreSettings;
  check(place: { readonly store: Store; readonly clock: SetClock; newHarness(): Harness }): Promise<void>;
};

/** Few enough that a mutant which nothing notices costs seconds, many enough to have every operation in every state. */
const sequencesEach = 60;

function drawn(name: string, from: typeof sequences): readonly Case[] {
  return fc.sample(from, { seed: 20261115, numRuns: sequencesEach }).map((commands, index) => ({
    name: `${name} ${index}`,
    settings: differentialSettings,
    async check({ store, clock }) {
      const reference = createMemoryStore({ clock, settings: differentialSettings });
      const candidates = [
        { name: "memory", store: reference },
        { name: "redis", store },
      ];
      await compare(candidates, commands, `${name.replaceAll(" ", "")}${index}`, clock);
    },
  }));
}

/** They ask without pause until real time has passed: a clock that only goes on while somebody waits never gets there. */
const needRealTime = [
  "a neighbour's timer behind 10,000 due ones of one tenant is fired within 11 rounds",
  "owners that take an entry in vain are not blamed before the time is over, however many they are",
];

export const cases: readonly Case[] = [
  ...edges.map((edge) => ({
    name: edge.name,
    settings: edgeSettings,
    check: ({ newHarness, clock }: Parameters<Case["check"]>[0]) => checkEdge(edge, newHarness, clock),
  })),
  ...storeConformance.flatMap((suite) =>
    suite.cases
      .filter(({ name }) => !needRealTime.includes(name))
      .map(({ name, check }) => ({
        name: `${suite.name}: ${name}`,
        settings: suite.settings,
        check: ({ newHarness }: Parameters<Case["check"]>[0]) => check(newHarness()),
      })),
  ),
  ...drawn("sequence", sequences),
  ...drawn("sequence of trees", treeSequences),
  ...drawn("sequence of verdicts", heldSequences),
];

export type Verdict =
  | { readonly kind: "passed"; readonly tookMs: number; readonly called: ReadonlySet<OperationName> }
  | { readonly kind: "failed"; readonly cause: string }
  | { readonly kind: "too_slow" };

/** Its server may be ended while it is connected. */
function clientOf(url: string) {
  return createClient({ url })
    .on("error", () => {})
    .connect();
}

/** A script that loops keeps its server. No case takes a tenth of this, also where others use the machine. */
const caseMsMax = 20_000;

export class LuaWorld {
  readonly #server: RedisServer;
  readonly #client: Awaited<ReturnType<typeof clientOf>>;
  readonly #clock: SetClock;
  readonly #stores = new Map<StoreSettings, { store: Store; used: Set<Partition> }>();
  #opened = 0;

  static async start(): Promise<LuaWorld> {
    const server = await startRedisServer();
    const client = await clientOf(server.url);
    return new LuaWorld(server, client);
  }

  private constructor(server: RedisServer, client: Awaited<ReturnType<typeof clientOf>>) {
    this.#server = server;
    this.#client = client;
    this.#clock = new SetClock(async (nowMs) => {
      await client.sendCommand(["MSET", ...clockKeys.flatMap((key) => [key, String(nowMs)])]);
    });
  }

  /** Nothing is left of an earlier mutant, neither data nor scripts. */
  async begin(): Promise<void> {
    for (const { store } of this.#stores.values()) await store.close();
    this.#stores.clear();
    await this.#client.sendCommand(["FLUSHALL"]);
    await this.#client.sendCommand(["SCRIPT", "FLUSH"]);
    await this.#clock.pass(0);
  }

  /** Whether Redis accepts these scripts at all. */
  async compiles(scripts: ScriptOverrides): Promise<boolean> {
    try {
      await Promise.all(
        Object.values(scripts).map((source) => this.#client.sendCommand(["SCRIPT", "LOAD", source])),
      );
      return true;
    } catch {
      return false;
    }
  }

  async run({ settings, check }: Case, scripts: ScriptOverrides): Promise<Verdict> {
    const called = new Set<OperationName>();
    const beganMs = systemClock.monotonicMs();
    let cancel: CancelTimer | undefined;
    const late = new Promise<Verdict>((resolve) => {
      cancel = systemClock.timer(caseMsMax, () => resolve({ kind: "too_slow" }));
    });
    const judged = this.#check(settings, check, scripts, called).then(
      (): Verdict => ({ kind: "passed", tookMs: systemClock.monotonicMs() - beganMs, called }),
      (error: unknown): Verdict => ({ kind: "failed", cause: String(error).slice(0, 400) }),
    );
    const verdict = await Promise.race([judged, late]);
    cancel?.();
    return verdict;
  }

  async #check(
    settings: StoreSettings,
    check: Case["check"],
    scripts: ScriptOverrides,
    called: Set<OperationName>,
  ): Promise<void> {
    const { store, used } = await this.#place(settings, scripts);
    const noted = Object.fromEntries(
      operationNames.map((name) => {
        const method = store[name] as (...args: unknown[]) => unknown;
        return [
          name,
          (...args: unknown[]) => {
            called.add(name);
            return method.apply(store, args);
          },
        ];
      }),
    );
    const observed = { ...store, ...noted } as Store;
    const newHarness = () => new Harness(observed, this.#clock, uniqueText(used));
    await check({ store: observed, clock: this.#clock, newHarness });
  }

  async #place(settings: StoreSettings, scripts: ScriptOverrides) {
    const known = this.#stores.get(settings);
    // A sweep would find what an earlier case left in the partition.
    if (known !== undefined && known.used.size <= 58) return known;
    await known?.store.close();
    this.#opened += 1;
    const common = {
      urls: [this.#server.url],
      mode: "standalone",
      clock: systemClock,
      log: silentLog,
    } as const;
    const store = await openRedisStore({ ...common, settings, scripts, prefix: `m${this.#opened}` });
    const place = { store, used: new Set<Partition>() };
    this.#stores.set(settings, place);
    return place;
  }

  /** The server ends with its connections, whatever it is busy with. */
  async stop(): Promise<void> {
    this.#client.destroy();
    for (const { store } of this.#stores.values()) void store.close();
    await this.#server.kill();
  }
}
