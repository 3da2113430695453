// Kills the owner of a SQLite store under load, and lets its disk fail: what was answered must be there, and whole.
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loadDriver } from "../../src/adapters/sqlite/driver.ts";
import type { ReservationDigest } from "../../src/domain/fingerprint.ts";
import { isTerminal, type RunHeader, type RunId } from "../../src/domain/run.ts";
import type { Store } from "../../src/ports/store.ts";
import { type ChildProgram, startChildProgram } from "../support/child-program.ts";
import type { ChildLine, ChildOptions } from "../support/sqlite-child.ts";
import { call, eventNumbers, fileIn, openStoreIn, range, tenant } from "../support/sqlite-support.ts";
import { diskFolder } from "../support/stores.ts";

let directory: string;
beforeEach(() => {
  directory = diskFolder();
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const program = join(import.meta.dirname, "../support/sqlite-child.ts");
const runsPerRound = 1_000_000;

test("after a SIGKILL at any moment every answered run is there, and nothing is half there", async () => {
  const delays = seededDelaysMs(20_261_115, 6);
  const answered = { admitted: new Set<RunId>(), ended: new Set<RunId>() };
  for (const [round, delayMs] of delays.entries()) {
    const options: ChildOptions = { directory, inFlight: 20, first: round * runsPerRound };
    await killUnderLoad(startChildProgram(program, options), delayMs, answered);
    const note = `round ${round}, killed ${delayMs} ms after its first answer`;
    const store = await openStoreIn(directory);
    await expectAnsweredRuns(store, answered, note);
    const numbers = await eventNumbers(store);
    expect(numbers, note).toEqual(range(numbers.length).map((index) => index + 1));
    const listed = await store.listActive({ tenant, limit: 1_000_000 }, call);
    await store.close();
    const headers = await allHeaders();
    const active = headers.filter((header) => !isTerminal(header.status)).map((header) => header.runId);
    const slots = listed.kind === "listed" ? listed.runIds : [];
    expect(new Set(slots), note).toEqual(new Set(active));
    // One event for each admission and one for each end.
    expect(numbers, note).toHaveLength(headers.length + headers.length - active.length);
  }
  expect(answered.admitted.size).toBeGreaterThan(100);
  expect(answered.ended.size).toBeGreaterThan(20);
});

test("a disk that fails ends the store: unknown, then unavailable, and the answered runs are there", async () => {
  const options: ChildOptions = { directory, inFlight: 10, first: 0 };
  // The largest file allowed is 1.2 MB: past it a write fails, and SQLite calls that an I/O error.
  const command = 'ulimit -f 1200; exec "$0" --import tsx "$1" "$2"';
  const args = ["-c", command, process.execPath, program, JSON.stringify(options)];
  const { stdout } = spawnSync("bash", args, { encoding: "utf8", timeout: 15_000 });
  const lines = stdout
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as ChildLine);
  const answers = lines.flatMap((line) => ("answer" in line ? [line.answer] : []));
  expect(new Set(answers)).toEqual(new Set(["unknown", "unavailable"]));
  expect(answers.lastIndexOf("unknown")).toBeLessThan(answers.length - 1);
  expect(lines.filter((line) => "fatal" in line)).toEqual([{ fatal: "store_unavailable" }]);
  const admitted = new Set(lines.flatMap((line) => ("runId" in line ? [line.runId] : [])));
  expect(admitted.size).toBeGreaterThan(0);
  const store = await openStoreIn(directory);
  await expectAnsweredRuns(store, { admitted, ended: new Set() }, "after the disk failed");
  await store.close();
});

type Answered = { readonly admitted: Set<RunId>; readonly ended: Set<RunId> };

async function killUnderLoad(child: ChildProgram, delayMs: number, answered: Answered): Promise<void> {
  expect(await child.next<ChildLine>()).toEqual({ opened: true });
  note(await child.next<ChildLine>(), answered);
  await sleep(delayMs);
  child.process.kill("SIGKILL");
  // What the child wrote before its death is still in the pipe.
  for (;;) {
    const line = await child.next<ChildLine>(300).catch(() => undefined);
    if (line === undefined) break;
    note(line, answered);
  }
  await child.stop();
}

function note(line: ChildLine, { admitted, ended }: Answered): void {
  if ("runId" in line) admitted.add(line.runId);
  if ("endedRunId" in line) ended.add(line.endedRunId);
}

/** Each with its header, its record and its reservation; each ended one with its final status. */
async function expectAnsweredRuns(store: Store, { admitted, ended }: Answered, hint: string): Promise<void> {
  await Promise.all(
    [...admitted].map(async (runId) => {
      const loaded = await store.loadRun({ tenant, runId }, call);
      if (loaded.kind !== "run") throw new Error(`${hint}: ${runId} was answered and is ${loaded.kind}`);
      expect(loaded.records, hint).toHaveLength(1);
      const digest = loaded.header.reservation as ReservationDigest;
      const bound = await store.inspectReservation({ tenant, digest }, call);
      expect(bound, hint).toMatchObject({ kind: "bound", runId });
      if (ended.has(runId)) expect(loaded.header.status, hint).toBe("succeeded");
    }),
  );
}

async function allHeaders(): Promise<RunHeader[]> {
  const database = (await loadDriver())(fileIn(directory), { readOnly: true });
  const rows = database.prepare("SELECT value FROM run").all() as Array<{ readonly value: string }>;
  database.close();
  return rows.map((row) => JSON.parse(row.value) as RunHeader);
}

/** Between 5 and 400 ms, from a fixed seed: a failure comes again. */
function seededDelaysMs(seed: number, amount: number): number[] {
  let state = seed;
  return range(amount).map(() => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return 5 + ((state >>> 8) % 396);
  });
}
