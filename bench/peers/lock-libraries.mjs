// The peers: lock libraries under contention, each with its default pauses, and with as much patience as it needs.
//   node --import ./scripts/setup/typescript.mjs lock-libraries.mjs <library> <redis URL> '<contention as JSON>'
// Prints one line of JSON. All contenders share one connection, as they do with our own locks.
import { Redis } from "ioredis";
import { contend } from "../lock-contention.ts";

const KEY = "hot";
const TTL_MS = 30_000;
/** Longer than any window: none gives up early, and one that does asks again and waits on. */
const PATIENCE_MS = 120_000;

/** What each sends by itself, and what its scripts call. */
const LIBRARIES = {
  redlock: {
    sent: ["evalsha", "eval"],
    insideScripts: ["exists", "set", "get", "del", "pexpire"],
    async open(client) {
      const { default: Redlock } = await import("redlock");
      // By default: a pause of 200 ms, give or take 100; only the number of tries is raised, from 10 to no limit.
      const redlock = new Redlock([client], { retryCount: -1 });
      // It reports every try that finds the lock taken.
      redlock.on("error", () => {});
      return async () => {
        const lock = await redlock.acquire([KEY], TTL_MS);
        return { release: () => lock.release() };
      };
    },
  },
  "redis-semaphore": {
    sent: ["set", "evalsha", "eval"],
    insideScripts: ["get", "del", "pexpire"],
    async open(client) {
      const { Mutex, TimeoutError } = await import("redis-semaphore");
      // By default: a pause of 10 ms; only the patience is raised, from 10 s.
      return async () => {
        const mutex = new Mutex(client, KEY, { lockTimeout: TTL_MS, acquireTimeout: PATIENCE_MS });
        try {
          await mutex.acquire();
        } catch (error) {
          if (error instanceof TimeoutError) return "gave_up";
          throw error;
        }
        return { release: () => mutex.release() };
      };
    },
  },
  "redlock-universal": {
    sent: ["set", "evalsha", "eval", "script|load"],
    insideScripts: ["get", "del", "pexpire", "pttl"],
    async open(client) {
      const { createLock, IoredisAdapter, LockAcquisitionError } = await import("redlock-universal");
      const adapter = new IoredisAdapter(client);
      // By default: a pause of 100 ms; only the number of tries is raised, from 3.
      const lock = createLock({ adapter, key: KEY, ttl: TTL_MS, retryAttempts: PATIENCE_MS / 100 });
      return async () => {
        try {
          const handle = await lock.acquire();
          return { release: () => lock.release(handle) };
        } catch (error) {
          if (error instanceof LockAcquisitionError) return "gave_up";
          throw error;
        }
      };
    },
  },
};

const [name, url, json] = process.argv.slice(2);
const library = LIBRARIES[name];
if (library === undefined || url === undefined || json === undefined) {
  throw new Error(`usage: node lock-libraries.mjs ${Object.keys(LIBRARIES).join("|")} <redis URL> '<JSON>'`);
}
const client = new Redis(url);
client.on("error", (error) => process.emitWarning(error));
const acquire = await library.open(client);
console.log(JSON.stringify(await contend(url, JSON.parse(json), library, acquire)));
process.exit(0);
