// The whole of a lease: what the work gets, how it ends, and how the lock is given back.
import { describe, expect, test } from "vitest";
import { withLease } from "../../src/control/locks/with-lease.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import { InterlockError } from "../../src/errors.ts";
import {
  grantOf,
  hold,
  inspect,
  jobTarget,
  jobTerms,
  overtake,
  setUp,
  withoutRenewal,
  workUntilStopped,
} from "../support/lease-scenarios.ts";
import { createWorld, isIdle, join } from "../support/simulated-ports.ts";

const unrenewed = withoutRenewal(jobTerms);

describe("work under a lease", () => {
  test("has the lock's token and fence while it runs, and gives the lock back when it returns", async () => {
    const scenario = setUp();
    const outcome = await hold(scenario, jobTerms, async (lease) => {
      const { token, fence } = lease;
      expect(grantOf(scenario)).toMatchObject({ token, fence, instance: "p", released: false });
      lease.check();
      return 7;
    });
    expect(outcome).toEqual({ kind: "finished", value: 7 });
    expect(scenario.calls.map((call) => `${call.name} ${call.answer}`)).toEqual([
      "acquireLock acquired",
      "releaseLock released",
    ]);
    expect((await inspect(scenario)).kind).toBe("free");
    expect(scenario.lines).toEqual([]);
  });

  test("that throws gives the lock back, and the error comes through", async () => {
    const scenario = setUp();
    const failure = new Error("the decision service is down");
    const outcome = hold(scenario, jobTerms, async () => {
      await scenario.process.clock.sleep(100);
      throw failure;
    });
    await expect(outcome).rejects.toBe(failure);
    expect((await inspect(scenario)).kind).toBe("free");
    expect(await isIdle(scenario.kernel)).toBe(true);
  });

  test("that throws before its first wait gives the lock back too", async () => {
    const scenario = setUp();
    const outcome = hold(scenario, jobTerms, () => {
      throw new Error("at once");
    });
    await expect(outcome).rejects.toThrow("at once");
    expect((await inspect(scenario)).kind).toBe("free");
  });

  test("excludes everybody else: of ten contenders never two are inside", async () => {
    const world = createWorld({ seed: 3, travelMsMax: 3 });
    const members = Array.from({ length: 10 }, (_, index) => join(world, `p${index}`));
    let inside = 0;
    let insideMax = 0;
    const fences: number[] = [];
    const outcomes = await world.kernel.complete(
      Promise.all(
        members.map((member) =>
          withLease(member.ports, jobTarget, { ...jobTerms, waitMs: 20_000 }, async (lease) => {
            inside += 1;
            insideMax = Math.max(insideMax, inside);
            fences.push(lease.fence);
            await member.process.clock.sleep(20);
            inside -= 1;
          }),
        ),
      ),
    );
    expect(outcomes.map((outcome) => outcome.kind)).toEqual(members.map(() => "finished"));
    expect(insideMax).toBe(1);
    expect(fences).toEqual([...new Set(fences)].sort((left, right) => left - right));
  });
});

describe("work whose lease was lost", () => {
  test("that stops with the lease's reason is abandoned", async () => {
    const scenario = setUp();
    const outcome = await hold(scenario, unrenewed, workUntilStopped(scenario));
    expect(outcome).toEqual({ kind: "abandoned", cause: "deadline" });
  });

  test("that stops with an error caused by the lease's reason is abandoned too", async () => {
    const scenario = setUp();
    const outcome = await hold(scenario, unrenewed, async (lease) => {
      await scenario.process.clock.sleep(100_000, lease.signal);
      throw new Error("the step was interrupted", { cause: lease.signal.reason });
    });
    expect(outcome).toEqual({ kind: "abandoned", cause: "deadline" });
  });

  test("that fails for a reason of its own fails with that, and the lock is left in place", async () => {
    const scenario = setUp();
    const failure = new Error("unrelated");
    const outcome = hold(scenario, unrenewed, async (lease) => {
      await scenario.process.clock.sleep(100_000, lease.signal);
      throw failure;
    });
    await expect(outcome).rejects.toBe(failure);
    expect(scenario.callsOf("releaseLock")).toEqual([]);
  });

  test("that returns all the same is finished, and says that its lease had ended", async () => {
    const scenario = setUp();
    const outcome = await hold(scenario, unrenewed, async (lease) => {
      await scenario.process.clock.sleep(100_000, lease.signal);
      return "returned";
    });
    expect(outcome).toEqual({ kind: "finished", value: "returned", abandoned: "deadline" });
    expect(scenario.callsOf("releaseLock")).toEqual([]);
  });

  test("is abandoned by check also after the caller went away first", async () => {
    const scenario = setUp();
    const caller = new AbortController();
    scenario.kernel.after(1_000, () => caller.abort());
    const outcome = hold(
      scenario,
      unrenewed,
      async (lease) => {
        await scenario.process.clock.sleep(55_000);
        lease.check();
      },
      { signal: caller.signal },
    );
    await expect(outcome).resolves.toEqual({ kind: "abandoned", cause: "deadline" });
  });
});

describe("a caller that goes away during the work", () => {
  test("is seen by the work with its own reason, and the lock is given back all the same", async () => {
    const scenario = setUp();
    const caller = new AbortController();
    scenario.kernel.after(500, () => caller.abort(new Error("client closed")));
    const outcome = hold(scenario, jobTerms, workUntilStopped(scenario), { signal: caller.signal });
    await expect(outcome).rejects.toThrow("client closed");
    expect(scenario.kernel.nowMs()).toBe(500);
    expect(scenario.callsOf("releaseLock").map((call) => call.answer)).toEqual(["released"]);
    expect((await inspect(scenario)).kind).toBe("free");
  });

  test("does not stop a release that has to be repeated", async () => {
    const scenario = setUp({ failing: { releaseLock: ["request_lost"] } });
    const caller = new AbortController();
    const outcome = await hold(
      scenario,
      jobTerms,
      async () => {
        caller.abort();
        return "done";
      },
      { signal: caller.signal },
    );
    expect(outcome).toEqual({ kind: "finished", value: "done" });
    expect(scenario.callsOf("releaseLock").map((call) => call.answer)).toEqual(["unknown", "released"]);
    expect((await inspect(scenario)).kind).toBe("free");
  });
});

describe("release", () => {
  test("seed 003: a release with a token that no longer holds the lock is skipped, logged and counted", async () => {
    const scenario = setUp();
    await hold(scenario, unrenewed, () => overtake(scenario));
    expect(await inspect(scenario)).toMatchObject({ kind: "held", instance: "q" });
    expect(scenario.lines).toEqual([
      {
        level: "warn",
        message: "lock release skipped: token mismatch",
        fields: { tenant: "acme", lock: "job", name: "run:step@1", reason: "lock not owned" },
      },
    ]);
    const labels = { lock: "job", operation: "release" };
    expect(scenario.metrics.total("lock_not_owned_total", labels)).toBe(1);
  });

  test("seed 003: an owner that expired cannot release the lock of the next one, nor renew it", async () => {
    const scenario = setUp();
    const call = { deadlineMs: 1_000 };
    const first = { ...jobTarget, token: "a" as LockToken };
    const second = { ...jobTarget, token: "b" as LockToken };
    await scenario.store.acquireLock({ ...first, instance: "a", ttlMs: 2_000 }, call);
    await scenario.kernel.run({ untilMs: 3_000 });
    await scenario.store.acquireLock({ ...second, instance: "b", ttlMs: 5_000 }, call);
    expect((await scenario.store.releaseLock(first, call)).kind).toBe("not_owned");
    expect((await scenario.store.renewLock({ ...first, ttlMs: 5_000 }, call)).kind).toBe("not_owned");
    expect(await inspect(scenario)).toMatchObject({ kind: "held", instance: "b", expiresInMs: 5_000 });
  });

  test("seed 003: an empty token is refused before anything is sent", async () => {
    const scenario = setUp();
    const request = { ...jobTarget, token: "" as LockToken };
    const release = scenario.ports.store.releaseLock(request, { deadlineMs: 1_000 });
    await expect(release).rejects.toThrow("lock token required");
    expect(scenario.calls).toEqual([]);
  });

  test("whose answer is missing is repeated with the same token, and finds what the first did", async () => {
    const scenario = setUp({ failing: { releaseLock: ["reply_lost"] } });
    await hold(scenario, jobTerms, async () => "done");
    const releases = scenario.callsOf("releaseLock");
    expect(releases.map((call) => call.answer)).toEqual(["unknown", "released"]);
    expect(releases[0]?.request).toEqual(releases[1]?.request);
    expect(scenario.lines).toEqual([]);
    expect(scenario.metrics.total("lock_not_owned_total")).toBe(0);
  });

  test("that stays unknown is bounded, and leaves the lock to its ttl", async () => {
    const scenario = setUp({ failing: { releaseLock: "request_lost" } });
    const outcome = await hold(scenario, jobTerms, async () => "done");
    expect(outcome).toEqual({ kind: "finished", value: "done" });
    expect(scenario.kernel.nowMs()).toBeLessThanOrEqual(jobTerms.releaseTimeoutMs);
    expect(scenario.callsOf("releaseLock").length).toBeGreaterThan(1);
    expect(scenario.lines.map((line) => line.message)).toEqual(["lock release failed: left to its ttl"]);
    expect((await inspect(scenario)).kind).toBe("held");
    await scenario.kernel.run({ untilMs: jobTerms.ttlMs + 1 });
    expect((await inspect(scenario)).kind).toBe("free");
  });

  test("that cannot be sent leaves the lock to its ttl at once", async () => {
    const scenario = setUp({ failing: { releaseLock: "unavailable" } });
    await hold(scenario, jobTerms, async () => "done");
    expect(scenario.lines.map((line) => line.message)).toEqual(["lock release failed: left to its ttl"]);
    expect(scenario.kernel.nowMs()).toBe(0);
  });

  test("waits for a renewal on its way, so that none can follow it", async () => {
    const scenario = setUp({ failing: { renewLock: { replyAfterMs: 1_500 } } });
    await hold(scenario, jobTerms, () => scenario.process.clock.sleep(15_100));
    expect(scenario.callsOf("releaseLock").map((call) => call.atMs)).toEqual([16_500]);
    expect((await inspect(scenario)).kind).toBe("free");
  });
});

test("the reason of a lost lease is an error that a caller may repeat", async () => {
  const scenario = setUp();
  let reason: unknown;
  await hold(scenario, unrenewed, async (lease) => {
    await scenario.process.clock.sleep(100_000, lease.signal);
    reason = lease.signal.reason;
  });
  expect(reason).toBeInstanceOf(InterlockError);
  expect((reason as InterlockError).detail).toBe("job lock abandoned: deadline");
});
