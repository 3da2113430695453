// The server that is measured, in a process of its own: a gateway on SQLite whose CPU time is nobody else's. Prints where it is,
// then one line of JSON for every line it reads: what its CPU did since the line before.
import { openSync, readSync } from "node:fs";
import { createInterface } from "node:readline";
import { openSqliteStore } from "../../src/adapters/sqlite/sqlite-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { createThreadedJudge } from "../../src/adapters/threaded-judge.ts";
import { defaultStoreSettings } from "../../src/ports/store.ts";
import { acme, makeKey, makeThings, openGatewayWorld, type Things } from "../support/gateway-world.ts";
import { silentLog } from "../support/silent-log.ts";

/** Since the line before. */
export type Lap = {
  /** Of all threads. */
  readonly cpuMs: number;
  /** Computed by the main thread between two turns of the event loop, at most: nobody was answered meanwhile. */
  readonly blockMs: number;
};

export type Opened = {
  readonly url: string;
  readonly keys: Readonly<Record<string, string>>;
  readonly otherKeys: readonly string[];
  readonly things: Things;
};

/** `lap` answers at once; `settle` when the work that goes on after an answer has ended, too. */
export type Command = "lap" | "settle";

/** A tick is due so often: a block is known to this. */
const tickMs = 2;
/** The process is at rest when it computes less than this much in so many ticks. */
const rest = { ms: 1, ticks: 6 };
const settleTicksMax = 5_000;

const threadFile = openSync(`/proc/self/task/${process.pid}/schedstat`, "r");
const threadText = Buffer.alloc(64);

/** CPU time of this thread alone: a busy machine does not decide. */
function threadMs(): number {
  readSync(threadFile, threadText, 0, threadText.length, 0);
  return Number(threadText.toString("latin1", 0, threadText.indexOf(32))) / 1_000_000;
}

let usedBefore = process.cpuUsage();
let tickedMs = threadMs();
let blockMs = 0;

function tick(): number {
  const nowMs = threadMs();
  const computedMs = nowMs - tickedMs;
  blockMs = Math.max(blockMs, computedMs);
  tickedMs = nowMs;
  return computedMs;
}

function lap(): Lap {
  tick();
  const used = process.cpuUsage();
  const cpuMs = (used.user + used.system - usedBefore.user - usedBefore.system) / 1_000;
  const answer = { cpuMs, blockMs };
  usedBefore = used;
  blockMs = 0;
  return answer;
}

const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);

function settled(): Promise<void> {
  return new Promise((resolve) => {
    const computed: number[] = [];
    const look = setInterval(() => {
      computed.push(tick());
      const isAtRest =
        computed.length >= rest.ticks && computed.slice(-rest.ticks).every((ms) => ms < rest.ms);
      if (!isAtRest && computed.length < settleTicksMax) return;
      clearInterval(look);
      resolve();
    }, tickMs);
  });
}

const { directory } = JSON.parse(process.argv[2] ?? "") as { readonly directory: string };
const store = await openSqliteStore({
  directory,
  settings: defaultStoreSettings,
  clock: systemClock,
  log: silentLog,
});
const world = await openGatewayWorld(
  { "gateway.failedAuthenticationsPerMinute": 100_000, "gateway.eventLoopDelayMs": 60_000 },
  store,
  createThreadedJudge({
    clock: systemClock,
    log: silentLog,
    waiting: { max: 256, ownerMax: 32 },
    timeoutMs: 60_000,
  }),
);
const things = await makeThings(world);
const revoked = await makeKey(world.plane, acme, "admin");
await world.plane.api.revokeKey({ by: "setup", tenant: acme, keyId: revoked.key.keyId });
setInterval(tick, tickMs);
const keys = Object.fromEntries(Object.entries(world.acme).map(([role, { text }]) => [role, text]));
say({
  url: world.url,
  keys: { ...keys, platform: world.platform.text },
  otherKeys: [world.globex.admin.text, revoked.text],
  things,
} satisfies Opened);
for await (const line of createInterface({ input: process.stdin })) {
  if ((line as Command) === "settle") await settled();
  say(lap());
}
await world.close();
process.exit(0);
