// A program that holds a lock with the SDK and writes under it, until it has been paused; then it does everything that it should not.
import { createClient } from "../../sdk/client.ts";
import { fenceHeaders } from "../../sdk/fence.ts";
import { runtime } from "../../sdk/runtime.ts";
import { type Lease, LockLost, withLock } from "../../sdk/with-lock.ts";
import { asked, writeTo } from "../locks/public-locks.ts";
import type { HolderMessage } from "./paused-holder.ts";

/** Longer than any wait for the processor; the pause of the drill is much longer. */
const pauseMsMin = 1_000;
const lookEveryMs = 50;
const writesBefore = 3;

/** How long the program waits for its pause: the program that started it reports what went wrong by then. */
const pausedWithinMs = 60_000;

// The server and the key come by the environment, as for every program that uses the SDK.
const [resource = "", ttlMs = "", sinkUrl = "", owner = ""] = process.argv.slice(2);
const client = createClient({ retry: { attemptsMax: 1 } });

function print(line: HolderMessage): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function work(lease: Lease): Promise<void> {
  for (let writes = 0; writes < writesBefore; writes += 1) await writeTo(sinkUrl, owner, lease.headers());
  // Asked for while the lock was its own, sent when it no longer is: no check of its own can help a program here.
  const headers = lease.headers();
  // Read before anybody can know that it holds: the pause may come before the next line runs.
  const heldMs = runtime.now().monotonicMs;
  print({ event: "holding", fence: lease.fence });
  await noticePause(heldMs);
  print({ event: "wrote late", status: await writeTo(sinkUrl, owner, headers) });
  print({ event: "asked for headers", given: areHeadersGiven(lease) });
  await actAsIfItHeld(lease);
  lease.check();
}

async function noticePause(heldMs: number): Promise<void> {
  let beforeMs = heldMs;
  while (beforeMs <= heldMs + pausedWithinMs) {
    await runtime.sleep(lookEveryMs);
    const nowMs = runtime.now().monotonicMs;
    if (nowMs - beforeMs > pauseMsMin) return;
    beforeMs = nowMs;
  }
  throw new Error("nobody has paused this program");
}

function areHeadersGiven(lease: Lease): boolean {
  try {
    lease.headers();
    return true;
  } catch (error) {
    if (error instanceof LockLost) return false;
    throw error;
  }
}

async function actAsIfItHeld({ token, fence }: Lease): Promise<void> {
  const renewed = await asked(client.locks.renew({ resource, token, ttl_ms: Number(ttlMs) }));
  print({ event: "renewed late", answer: renewed.kind === "answered" ? "renewed" : renewed.code });
  const released = await asked(client.locks.release({ resource, token }));
  print({ event: "released late", answer: released.kind === "answered" ? "released" : released.code });
  print({ event: "wrote late", status: await writeTo(sinkUrl, owner, fenceHeaders({ resource, fence })) });
}

try {
  await withLock(client, resource, work, { ttlMs: Number(ttlMs), owner });
  print({ event: "ended", lost: "not at all" });
} catch (error) {
  if (!(error instanceof LockLost)) throw error;
  print({ event: "ended", lost: error.because });
}
