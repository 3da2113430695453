// Every cache of settings, keys and definitions, with every way in which a change can fail between its decision and the commit:
// what is remembered afterwards is what is stored.
import { describe, expect, test } from "vitest";
import { callFailures } from "../support/call-failures.ts";
import { FlowWorld } from "../support/flow-world.ts";
import { type Memory, type MemoryRow, memoryRows } from "../support/remembered-rows.ts";

/** What is promised of every change that another process made. */
const feltWithinMs = 5_000;

const act = (memory: Memory, row: MemoryRow) => memory.flow.finish(row.act(memory));

describe.each(Object.entries(memoryRows))("%s", (_, row) => {
  test.each(Object.entries(callFailures))(
    "is as stored within 5 s when %s, and the change can be made again",
    async (what, fail) => {
      const flow = new FlowWorld();
      const memory = { flow, p: await flow.open("p"), q: await flow.open("q"), facts: new Map() };
      await row.arrange(memory);
      const before = await row.look(memory, memory.p);
      const [failed, other] = [() => row.act(memory), () => row.other(memory)];
      await fail({ flow, p: memory.p, call: row.call, act: failed, other });
      // A value that was never stored is followed by nobody, not even for a moment.
      const now = await row.look(memory, await flow.open("now"));
      if (!what.startsWith("a failover"))
        expect([before, now]).toContainEqual(await row.look(memory, memory.p));
      await flow.pass(feltWithinMs);
      const fresh = await flow.open("fresh");
      const stored = await row.look(memory, fresh);
      expect(await row.look(memory, memory.p)).toEqual(stored);
      expect(await row.look(memory, memory.q)).toEqual(stored);
      await act(memory, row);
      // At once for the one that made it.
      expect(await row.look(memory, memory.p)).toEqual(await wantedOf(row));
      expect(await row.look(memory, await flow.open("later"))).toEqual(await wantedOf(row));
    },
  );
});

const wanted = new Map<MemoryRow, unknown>();

/** What a fresh process does where nothing has failed. */
async function wantedOf(row: MemoryRow): Promise<unknown> {
  if (!wanted.has(row)) {
    const flow = new FlowWorld();
    const memory = { flow, p: await flow.open("p"), q: await flow.open("q"), facts: new Map() };
    await row.arrange(memory);
    await act(memory, row);
    wanted.set(row, await row.look(memory, await flow.open("later")));
  }
  return wanted.get(row);
}
