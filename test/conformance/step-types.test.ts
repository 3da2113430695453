// Every type of step in every situation, on every store: one table, played by whole control planes with real adapters.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type StoreHost, startStoreHost, storeNames } from "../support/stores.ts";
import { loopRow, parallelRow, subworkflowRow } from "./step-types-control.ts";
import { conditionRow, storageRow, switchRow, transformRow } from "./step-types-inline.ts";
import { type Cell, play, type Row, situations } from "./step-types-table.ts";
import { approvalRow, delayRow } from "./step-types-waiting.ts";
import { forEachRow, notifyRow, workerRow } from "./step-types-work.ts";
import { World } from "./step-types-world.ts";

const table: Readonly<Record<string, Row>> = {
  worker: workerRow,
  "worker with for_each": forEachRow,
  approval: approvalRow,
  condition: conditionRow,
  switch: switchRow,
  parallel: parallelRow,
  loop: loopRow,
  delay: delayRow,
  notify: notifyRow,
  transform: transformRow,
  storage: storageRow,
  subworkflow: subworkflowRow,
};

const cells = Object.entries(table).flatMap(([type, row]) =>
  situations.map((situation) => ({ name: `${type}, ${situation}`, cell: row[situation] })),
);

describe.each(storeNames)("%s", (store) => {
  let host: StoreHost;
  const worlds: World[] = [];
  const played = new Map<string, Promise<void>>();

  /** All cells are under way at once: those that outlive their process in one world, the others in another. */
  beforeAll(async () => {
    host = await startStoreHost(store);
    const steady = await World.open(host, { overrides: { "jobs.leaseMs": 5_000 } });
    const mortal = await World.open(host, { overrides: { "jobs.leaseMs": 600 } });
    worlds.push(steady, mortal);
    const lives = createLives(mortal, cells.filter(({ cell }) => cell.middle !== undefined).length);
    for (const [index, { name, cell }] of cells.entries()) {
      const world = cell.middle === undefined ? steady : mortal;
      const end = playCell(world, `tenant-${index}`, cell, lives);
      // Its own test tells how it went.
      end.catch(() => {});
      played.set(name, end);
    }
  });

  afterAll(async () => {
    await Promise.all(worlds.map((world) => world.close()));
    await host?.close();
  });

  test.each(cells.map(({ name, cell }) => [name, titleOf(cell)] as const))(
    "%s: %s",
    (name) => played.get(name),
    30_000,
  );

  test("no cell has made the control plane stumble", async () => {
    await Promise.allSettled(played.values());
    expect(worlds.flatMap(({ errors }) => errors)).toEqual([]);
  });
});

function titleOf({ cannot, shows }: Cell): string {
  return cannot === undefined ? shows : `cannot happen, since ${cannot}: ${shows}`;
}

type Lives = {
  /** Resolves in the next life, when everybody is there. */
  next(): Promise<void>;
  /** Somebody comes to its end, also when it was never there. */
  leave(): void;
};

function createLives(world: World, expected: number): Lives {
  let awaited = expected;
  let isOver: (life: Promise<void>) => void = () => {};
  const nextLife = new Promise<void>((resolve) => {
    isOver = resolve;
  });
  const arrive = () => {
    awaited -= 1;
    // The first life was short of lease; what the next one claims is kept.
    if (awaited === 0) isOver(world.restart({ "jobs.leaseMs": 5_000 }));
  };
  return {
    next() {
      arrive();
      return nextLife;
    },
    leave: arrive,
  };
}

async function playCell(world: World, tenant: string, cell: Cell, lives: Lives): Promise<void> {
  let isThere = cell.middle === undefined;
  try {
    await play(world.scene(tenant), cell, () => {
      isThere = true;
      return lives.next();
    });
  } finally {
    if (!isThere) lives.leave();
  }
}
