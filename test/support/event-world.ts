// A process that watches a store in virtual time, and clients that note every number they are shown.

import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import type { Config } from "../../src/config.ts";
import { engineTerms } from "../../src/control/engine/engine.ts";
import { createEventFeeds, type EventFeeds } from "../../src/control/events/event-feeds.ts";
import type { Feed, FeedStart, OpenedFeed, Portion } from "../../src/control/events/feed.ts";
import { createWakes, type Wakes } from "../../src/control/events/wakes.ts";
import type { EventRow } from "../../src/domain/audit.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { loadConfig } from "../../src/load-config.ts";
import { defaultStoreSettings, type StoreSettings } from "../../src/ports/store.ts";
import { call, Harness } from "../../src/testing/conformance/harness.ts";
import { createKernel, type Kernel } from "../../src/testing/kernel.ts";
import { createSimulatedStore } from "../../src/testing/simulated-store.ts";
import { noStoreFaults } from "../../src/testing/store-link.ts";
import { join, type Member, type MemberOptions, type World } from "./simulated-ports.ts";

export type EventWorldOptions = MemberOptions & {
  readonly seed?: number;
  readonly travelMsMax?: number;
  readonly settings?: Partial<StoreSettings>;
  readonly overrides?: Partial<Config>;
};

export type EventWorld = {
  readonly kernel: Kernel;
  readonly world: World;
  readonly member: Member;
  readonly config: Config;
  readonly wakes: Wakes;
  readonly feeds: EventFeeds;
  /** Changes the state at once, as if another process did: nobody is told. */
  readonly harness: Harness;
  readonly tenant: TenantId;
  /** Adds event rows, as if another process did. */
  write(rows: number): Promise<void>;
  /** The same by this process. */
  writeHere(rows: number): Promise<void>;
  reads(operation?: "readEvents" | "readTimeline"): number;
  pass(ms: number): Promise<void>;
};

export function openEventWorld(options: EventWorldOptions = {}): EventWorld {
  const { seed = 1, travelMsMax = 0, settings: changed = {}, overrides = {}, ...rest } = options;
  const settings = { ...defaultStoreSettings, ...changed };
  const kernel = createKernel(seed);
  const server = createSimulatedStore(kernel, { settings, faults: { ...noStoreFaults, travelMsMax } });
  const { clock } = kernel.process("observer");
  const store = createMemoryStore({ clock, settings, records: server.records });
  const world: World = { kernel, server, records: server.records, store };
  const member = join(world, "gateway", rest);
  const { config } = loadConfig({ overrides });
  const wakes = createWakes();
  const harness = new Harness(store, clock, `x${seed}`);
  const { tenant } = harness;
  const write = async (rows: number) => {
    for (let row = 0; row < rows; row += 1) {
      const id = harness.id("workflow");
      const request = { tenant, collection: "workflow", id, body: "{}", changeId: id, actor: "ann" } as const;
      await store.putDocument(request, call);
    }
  };
  return {
    kernel,
    world,
    member,
    config,
    wakes,
    feeds: createEventFeeds({ ports: member.ports, config, terms: engineTerms(config) }, wakes),
    harness,
    tenant,
    write,
    async writeHere(rows) {
      await write(rows);
      wakes.changed(tenant);
    },
    reads: (operation = "readEvents") => member.callsOf(operation).length,
    pass: async (ms) => void (await kernel.run({ untilMs: kernel.nowMs() + ms })),
  };
}

export type Client<Row> = {
  readonly feed: Feed<Row>;
  /** The number of the newest row when it began. */
  readonly last: number;
  /** Everything shown so far: numbers, and in words what else was. */
  readonly shown: Array<number | string>;
  /** Resolves when nothing more comes. */
  readonly over: Promise<void>;
};

/** Takes what comes as fast as it comes. */
export function client<Row>(opened: OpenedFeed<Row>, numberOf: (row: Row) => number): Client<Row> {
  if (opened.kind !== "open") throw new Error(`the feed is ${opened.kind}`);
  const { feed, last } = opened;
  const shown: Array<number | string> = [];
  const take = async () => {
    for (;;) {
      const portion = await feed.next();
      shown.push(...notesOf(portion, numberOf));
      if (portion.kind !== "closed" && portion.kind !== "end") continue;
      feed.close();
      return;
    }
  };
  return { feed, last, shown, over: take() };
}

export function notesOf<Row>(portion: Portion<Row>, numberOf: (row: Row) => number): Array<number | string> {
  switch (portion.kind) {
    case "rows":
      return portion.rows.map(numberOf);
    case "reset":
      return [`reset ${portion.reason} ${portion.first}..${portion.last}`];
    case "end":
      return [`end ${Object.values(portion.end).join(" ")}`];
    case "closed":
      return ["closed"];
  }
}

export async function watch(world: EventWorld, start: FeedStart): Promise<Client<EventRow>> {
  const opened = await world.kernel.complete(world.feeds.ofTenant(world.tenant, start));
  return client(opened, ({ sequence }) => sequence);
}

/** `from` to `to`, both included. */
export function numbers(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}
