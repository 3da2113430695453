// Backup of a running server. It has the file to itself, so a request in its data folder asks it for a copy, and the thread that
// owns the file makes one: a user who may write there may read all of it anyway, and neither a key nor a free gateway is needed.
import { closeSync, openSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { InterlockError } from "../../errors.ts";
import type { Clock, Log } from "../../ports/ports.ts";
import { systemClock } from "../system/system.ts";
import { type Copy, putCopyInPlace } from "./backup.ts";
import { type Database, messageOf } from "./driver.ts";

type Names = Readonly<Record<"wanted" | "taken" | "copy" | "made" | "failed", string>>;

/** Beside the data: a request, the same once the server has begun, the copy while it grows, and what came of it. */
function namesFor(file: string): Names {
  return {
    wanted: `${file}.backup-wanted`,
    taken: `${file}.backup-taken`,
    copy: `${file}.backup-partial`,
    made: `${file}.backup`,
    failed: `${file}.backup-failed`,
  };
}

const lookEveryMs = 100;

/** To be called between batches. A look costs 2 us; the engine's look for what is due makes sure that there is one twice a second. */
export function createBackupServer(database: Database, file: string, clock: Clock, log: Log): () => void {
  const names = namesFor(file);
  let lookAtMs = clock.monotonicMs();
  return () => {
    const nowMs = clock.monotonicMs();
    if (nowMs < lookAtMs) return;
    lookAtMs = nowMs + lookEveryMs;
    if (!isThere(names.wanted)) return;
    try {
      makeCopy(database, names);
      log.info("store backed up", { ms: Math.round(clock.monotonicMs() - nowMs) });
    } catch (error) {
      log.warn("store backup failed", { cause: messageOf(error) });
      tryToSay(names, messageOf(error));
    }
  };
}

/** One read of the database: all that was committed before, nothing of what comes after. Calls wait for as long as it takes. */
function makeCopy(database: Database, names: Names): void {
  renameSync(names.wanted, names.taken);
  for (const leftOver of [names.copy, names.made, names.failed]) rmSync(leftOver, { force: true });
  // Made first, since SQLite would let everybody read it.
  closeSync(openSync(names.copy, "wx", 0o600));
  database.exec(`VACUUM INTO '${names.copy.replaceAll("'", "''")}'`);
  renameSync(names.copy, names.made);
}

/** With a full disk even this may fail: the one who waits gives up by itself then. */
function tryToSay({ copy, failed }: Names, cause: string): void {
  try {
    rmSync(copy, { force: true });
    writeFileSync(failed, cause, { mode: 0o600 });
  } catch {}
}

/** Every server that can do this looks twice a second; the rest is for a machine that is busy. */
const patience = { takenWithinMs: 15_000 };
/** VACUUM INTO copies about 100 MB a second. */
const madeWithinMs = 600_000;
const askEveryMs = 50;

/** Asks the server that has the file. `inUse` is what is thrown when that one does not answer. */
export async function backUpRunning(
  file: string,
  target: string,
  inUse: InterlockError,
  { takenWithinMs }: { readonly takenWithinMs: number } = patience,
): Promise<Copy> {
  const names = namesFor(file);
  if (isThere(target)) throw new InterlockError("data_left_alone", `${target} exists: choose another name`);
  for (const old of [names.taken, names.made, names.failed]) rmSync(old, { force: true });
  writeFileSync(names.wanted, String(process.pid), { mode: 0o600 });
  try {
    if (!(await until(() => !isThere(names.wanted), takenWithinMs))) throw inUse;
    await until(() => isThere(names.made) || isThere(names.failed), madeWithinMs);
    if (!isThere(names.made)) {
      const cause = isThere(names.failed) ? readFileSync(names.failed, "utf8") : "it took too long";
      throw new InterlockError("store_unavailable", `the server could not copy ${file}: ${cause}`);
    }
    return await putCopyInPlace(names.made, target);
  } finally {
    for (const name of [names.wanted, names.taken, names.made, names.failed]) rmSync(name, { force: true });
  }
}

async function until(holds: () => boolean, withinMs: number): Promise<boolean> {
  const endMs = systemClock.monotonicMs() + withinMs;
  while (!holds()) {
    if (systemClock.monotonicMs() > endMs) return false;
    await systemClock.sleep(askEveryMs);
  }
  return true;
}

function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}
