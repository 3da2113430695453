// Child program: holds a run lock without renewing it and watches itself, so that a test can stop and continue it.

import { bareCommit, bareCommitUnder } from "../../proof/simulation/bare-run.ts";
import { createControlPlane, parseTenantId, type RunId, withLease } from "../../src/index.ts";

type Options = {
  readonly url: string;
  readonly tenant: string;
  readonly runId: RunId;
  readonly ttlMs: number;
};

const { url, tenant: name, runId, ttlMs } = JSON.parse(process.argv[2] as string) as Options;
const tenant = parseTenantId(name);
if (tenant === undefined) throw new Error(`${name} is not a tenant id`);
const plane = await createControlPlane({ overrides: { "store.kind": "redis", "store.redisUrls": url } });
const say = (line: object) => console.log(JSON.stringify(line));

const target = { tenant, lock: { namespace: "run", name: runId } } as const;
const terms = {
  ttlMs,
  waitMs: 0,
  wait: "jitter",
  poll: { kind: "around", baseMs: 50, jitterFraction: 0.3 },
  callTimeoutMs: 2_000,
  releaseTimeoutMs: 1_000,
  rule: { policy: "fence", failuresMax: 1 },
} as const;

const outcome = await withLease(plane.ports, target, terms, async (lease) => {
  // Before the line that tells the test to stop this process, which may then happen at once.
  let heldAtMs = performance.now();
  say({ event: "held", fence: lease.fence });
  // One check per turn of the loop: after a stop, the first turn is the first chance to do harm.
  for (;;) {
    await new Promise((resolve) => setImmediate(resolve));
    try {
      // Taken before the check: a stop right behind it must show in the gap as well.
      const askedAtMs = performance.now();
      lease.check();
      heldAtMs = askedAtMs;
    } catch {
      const gapMs = performance.now() - heldAtMs;
      const end = { tenant, runId, status: "failed" } as const;
      const guarded = await lease.write("commit", bareCommit(end));
      const guard = {
        lock: target.lock,
        token: lease.token,
        fence: lease.fence,
        policy: "fence",
        ttlMs,
      } as const;
      const forced = await plane.ports.store.commit(bareCommitUnder(guard, end), { deadlineMs: 5_000 });
      say({ event: "refused", gapMs, guarded: guarded.kind, forced: forced.kind });
      lease.check();
    }
  }
});
say({ event: "over", kind: outcome.kind });
await plane.close();
process.exit(0);
