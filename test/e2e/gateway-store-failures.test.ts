// Every call to the store that an operation makes fails once, before and without its effect: what the caller is told, as on file.
// WRITE_ANSWERS=1 writes the file anew: the difference is what callers will be told.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { defaultStoreSettings, executeOn, storeFrom } from "../../src/ports/store.ts";
import { examples, keyFor, pathOf, type Row, rows } from "../support/gateway-requests.ts";
import { type GatewayWorld, makeThings, openGatewayWorld, type Things } from "../support/gateway-world.ts";

/** Streams have no end, a poll waits, and what is open needs no store, or says by itself how the store is. */
const left = [
  "streamEvents",
  "streamRunEvents",
  "pollJobs",
  "openApi",
  "live",
  "ready",
  "metrics",
  "getStatus",
];
/** What the engine asks for by itself, at any time. */
const background = /^(findDue|sweep|ping)$/;
/** Nothing but the operation itself asks for these: what it then says is on file. Others may meet the failure instead of it. */
const own =
  /^(list(Runs|ReadyJobs|Approvals|Locks)|get(Job|Approval)|inspectLock|count(Active|Jobs|Usage)|lookUp\w*|read\w+)$/;
const honest =
  /^(20[014]|503 (store_unavailable|concurrency_gate_unavailable|outcome_unknown|effect_unknown)( unknown)?|4\d\d \w+)( retryable)?$/;

type Mode = "unavailable" | "unknown";

/** The call of this name that comes next fails so; notes the names of those that come. */
function failingStore() {
  const base = createMemoryStore({ clock: systemClock, settings: defaultStoreSettings });
  const execute = executeOn(base);
  const state: { seen: string[]; next: { name: string; mode: Mode } | undefined } = {
    seen: [],
    next: undefined,
  };
  const store = storeFrom(
    async (name, request, options) => {
      if (!background.test(name)) state.seen.push(name);
      const { next } = state;
      if (next?.name !== name) return execute(name, request, options);
      state.next = undefined;
      return next.mode === "unknown"
        ? { kind: "unknown", cause: "no answer", notAfterMs: 0 }
        : { kind: "unavailable", cause: "down" };
    },
    () => base.close(),
  );
  return { store, state };
}

async function told(world: GatewayWorld, things: Things, row: Row): Promise<string> {
  const { body } = examples[row.operation](things);
  const key = keyFor(row, world);
  const answer = await world.ask(row.method, pathOf(row, things), {
    ...(key === undefined ? {} : { key }),
    ...(body === undefined ? {} : { body }),
  });
  const { code, outcome, retryable } = answer.json as {
    code?: string;
    outcome?: string;
    retryable?: boolean;
  };
  const parts = [String(answer.status), code, outcome, retryable === true ? "retryable" : undefined];
  return parts.filter((part) => part !== undefined).join(" ");
}

const path = join(import.meta.dirname, "../fixtures/answers/store-failures.json");

test("whichever call to the store fails, the caller is told what it may do", async () => {
  const { store, state } = failingStore();
  const world = await openGatewayWorld({ "audit.sealEveryMs": 3_600_000 }, store);
  try {
    const things = await makeThings(world);
    const found: Record<string, Record<string, string>> = {};
    // What only reads comes first, and what removes last: the others need what is there.
    const order = { GET: 0, POST: 1, PUT: 1, PATCH: 1, DELETE: 2 } as const;
    const asked = rows
      .filter(({ operation, access }) => !left.includes(operation) && access !== "open")
      .sort((one, other) => order[one.method] - order[other.method]);
    for (const row of asked) {
      const answers: Record<string, string> = {};
      state.seen = [];
      if (row.method === "GET") answers.nothing = await told(world, things, row);
      const tried = new Set<string>();
      // A read whose answer is lost is asked again, whatever it is.
      const modes = row.method === "GET" ? (["unavailable"] as const) : (["unavailable", "unknown"] as const);
      for (const mode of modes) {
        // What a change asks for is found out by failing its first call, then the second, which may be its last.
        for (let turn = 0; turn < 12; turn += 1) {
          const names = new Set(
            state.seen.filter((each) => row.method === "GET" || each !== "listDocuments"),
          );
          const name =
            [...names].find((each) => !tried.has(`${mode} ${each}`)) ?? (turn === 0 ? "nobody" : undefined);
          if (name === undefined) break;
          tried.add(`${mode} ${name}`);
          state.next = { name, mode };
          const answer = await told(world, things, row);
          if (!own.test(name) || row.method !== "GET")
            expect([row.operation, name, answer]).toEqual([
              row.operation,
              name,
              expect.stringMatching(honest),
            ]);
          else answers[`${name} is ${mode}`] = answer;
          state.next = undefined;
        }
      }
      found[row.operation] = answers;
    }
    if (process.env.WRITE_ANSWERS !== undefined) writeFileSync(path, `${JSON.stringify(found, null, 1)}\n`);
    expect(found).toEqual(JSON.parse(readFileSync(path, "utf8")));
  } finally {
    await world.close();
  }
});
