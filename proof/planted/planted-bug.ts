// What a planted bug is: a text patch, applied to a copy of the source, or a part that is swapped in a simulated world.
import type { Operations } from "../../src/adapters/operations/perform.ts";
import type { Database } from "../../src/adapters/sqlite/driver.ts";
import type { createStoreClock } from "../../src/adapters/system/store-clock.ts";
import type { startRun } from "../../src/control/admission/start-run.ts";
import type { Bus } from "../../src/ports/bus.ts";
import type { Ports } from "../../src/ports/ports.ts";
import type { Store } from "../../src/ports/store.ts";
import type { HoldsBack } from "../simulation/faults/loss-faults.ts";
import type { InvariantName } from "../simulation/invariants/invariants.ts";
import type { Difference } from "../simulation/isolation.ts";
import type { Swarm } from "../simulation/swarm.ts";

type Edit = {
  readonly file: string;
  /** Must stand exactly once in the file. */
  readonly find: string;
  readonly replace: string;
};

/** A small change of the source that must make the named tests fail. */
export type TextPatch = {
  readonly name: string;
  /** What the bug is, and what it would do to a user. */
  readonly what: string;
  readonly edits: readonly Edit[];
  /** Test files, at least one of which must fail. */
  readonly tests: readonly string[];
};

/** Another part in place of the right one when a simulated world is put together; the product has no switch for it. */
export type Swap = {
  readonly what: string;
  /** The invariants that can be the first to notice. */
  readonly caughtBy: readonly InvariantName[];
  /** Seeds within which it must be found: a hundred, unless it needs a coincidence that few seeds have. */
  readonly seedsMax?: number;
  readonly table?: Operations;
  /** Goes around the store of every process. */
  readonly wrapStore?: (store: Store) => Store;
  /** Whose answers wait until what they tell of is durable. */
  readonly holdsBack?: HoldsBack;
  /** What makes the time of an embedded store. */
  readonly storeClock?: typeof createStoreClock;
  /** Goes around the ports of every single flow. */
  readonly wrapPorts?: (ports: Ports) => Ports;
  /** What the locks protect takes every write. */
  readonly sinkDoesNotCompare?: true;
  /** Goes around the bus of every process. */
  readonly wrapBus?: (bus: Bus) => Bus;
  /** What callers of bare runs call instead. */
  readonly startRun?: typeof startRun;
  /** Makes its seeds be about what is broken. */
  readonly swarm?: (swarm: Swarm) => Swarm;
  /** Its seeds compare a tenant's day with itself. */
  readonly compares?: Difference;
  /** Goes around the connection to the file; the seeds then run on SQLite. */
  readonly wrapDatabase?: (database: Database) => Database;
};
