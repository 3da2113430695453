// Small scenarios about starts, ends and locks: two gateways, two requests.
import {
  type admissionLockTerms,
  approvalLockTerms,
  jobLockTerms,
} from "../../src/control/locks/lease-terms.ts";
import { type Lease, withLease } from "../../src/control/locks/with-lease.ts";
import type { Fingerprint } from "../../src/domain/fingerprint.ts";
import type { LockName } from "../../src/domain/lock.ts";
import { makeRunId } from "../../src/domain/run.ts";
import { bareStart } from "../simulation/bare-run.ts";
import type { StartAttempt } from "../simulation/checks/history.ts";
import { mustHold } from "../simulation/invariants/violation.ts";
import { keyOf, start } from "../simulation/people/clients.ts";
import { end } from "../simulation/people/enders.ts";
import type { Node } from "../simulation/world.ts";
import type { Ask, Scenario, Stage } from "./stage.ts";

const usual = "v1:usual" as Fingerprint;
const other = "v1:other" as Fingerprint;

type StartOf = { readonly key: string; readonly fingerprint?: Fingerprint };

export const admissionScenarios: Readonly<Record<string, Scenario>> = {
  same_key: {
    about: "two starts with the same key at limit 1",
    ...starting([{ key: "a" }, { key: "a" }]),
  },
  different_keys: {
    about: "two starts with different keys at limit 1",
    ...starting([{ key: "a" }, { key: "b" }]),
  },
  same_key_locked: {
    about: "two starts with the same key at limit 1 by the lock strategy",
    strategies: ["lock", "lock"],
    ...starting([{ key: "a" }, { key: "a" }]),
  },
  different_keys_locked: {
    about: "two starts with different keys at limit 1 by the lock strategy",
    strategies: ["lock", "lock"],
    ...starting([{ key: "a" }, { key: "b" }]),
  },
  lock_against_atomic: {
    about: "a start by the lock strategy against one by the atomic strategy, same key at limit 1",
    strategies: ["lock", "atomic"],
    ...starting([{ key: "a" }, { key: "a" }]),
  },
  lock_against_atomic_limit: {
    about: "a start by the lock strategy against one by the atomic strategy, different keys at limit 1",
    strategies: ["lock", "atomic"],
    ...starting([{ key: "a" }, { key: "b" }]),
  },
  fingerprints: {
    about: "the same key with different fingerprints",
    ...starting([{ key: "a" }, { key: "a", fingerprint: other }]),
  },
  start_and_end: {
    about: "a start at limit 1 against the end of the run that has the slot",
    ...startingAndEnding(0),
  },
  start_and_late_end: {
    about: "a start at limit 1, and a moment later the end of the run that has the slot",
    ...startingAndEnding(30),
  },
  two_lock_users: {
    about: "two users of one lock that is not renewed: each writes under it, twice",
    prepare: async (stage) => [
      usingLock(stage, 0, approvalLockTerms),
      usingLock(stage, 1, approvalLockTerms),
    ],
    repeat: useLockAgain,
  },
  two_lock_users_renewing: {
    about: "two users of one lock that is renewed: each writes under it, twice",
    prepare: async (stage) => [usingLock(stage, 0, jobLockTerms), usingLock(stage, 1, jobLockTerms)],
    repeat: useLockAgain,
  },
};

function starting(starts: readonly [StartOf, StartOf]): Pick<Scenario, "prepare" | "repeat"> {
  return {
    prepare: async (stage) => {
      await limitTo(stage, 1);
      return [asking(stage, 0, starts[0]), asking(stage, 1, starts[1])];
    },
    repeat: async (stage) => {
      for (const each of starts) await startAgain(stage, each);
    },
  };
}

/** The end is asked for so much later: a start that was asked for twice may be refused and still be on its way. */
function startingAndEnding(laterMs: number): Pick<Scenario, "prepare" | "repeat"> {
  return {
    prepare: async (stage) => {
      const { world, tenant, probe } = stage;
      await limitTo(stage, 1);
      const first = await start(world, probe, attempt(stage, "first", { key: "first" }));
      if (first.kind !== "admitted") throw new Error(first.kind);
      const ending = { commitId: "the end", tenant, runId: first.runId, status: "succeeded" } as const;
      const ask = async (node: Node) => {
        if (laterMs > 0) await node.process.clock.sleep(laterMs);
        await end(world, node, ending, "standard");
      };
      return [asking(stage, 0, { key: "a" }), { name: "end", gateway: 1, ask }];
    },
    repeat: (stage) => startAgain(stage, { key: "a" }),
  };
}

async function limitTo({ probe, tenant }: Stage, maxConcurrentRuns: number): Promise<void> {
  const answer = await probe.api.createTenant({ actor: "operator", tenant, settings: { maxConcurrentRuns } });
  if (answer.kind !== "created") throw new Error(answer.kind);
}

function attempt({ tenant }: Stage, actor: string, { key, fingerprint = usual }: StartOf): StartAttempt {
  return { actor, tenant, key: keyOf(key, fingerprint) };
}

function asking(stage: Stage, gateway: 0 | 1, of: StartOf): Ask {
  const asked = attempt(stage, `caller ${gateway + 1}`, of);
  return {
    name: `start ${of.key}`,
    gateway,
    ask: async (node) => {
      // As a process that knows the tenant's settings: reading them first would only multiply the schedules. A start under
      // the lock reads them, so that another may come between its count and its run.
      const { config, tenants } = node.gate();
      if (config["admission.strategy"] === "atomic") tenants.learn(stage.tenant, {});
      await start(stage.world, node, asked);
    },
  };
}

/** A key whose owner died is free after its lock; until then the refusal is true. */
async function startAgain(stage: Stage, of: StartOf): Promise<void> {
  const { world, probe } = stage;
  for (let tries = 1; ; tries += 1) {
    const answer = await start(
      world,
      probe,
      attempt(stage, `again ${of.key} ${of.fingerprint} ${tries}`, of),
    );
    const isDefinite = [
      "admitted",
      "replayed",
      "max_concurrent_runs_reached",
      "idempotency_key_reused",
    ].includes(answer.kind);
    if (isDefinite) return;
    const mayWait = answer.kind === "idempotency_key_in_flight" && tries <= 10;
    mustHold(mayWait, "INV-7", () => `key ${of.key}, asked for again: ${answer.kind}`);
    await probe.process.clock.sleep(300);
  }
}

const shared: LockName = { namespace: "job", name: "shared" };

type Terms = typeof admissionLockTerms | typeof approvalLockTerms;

function usingLock(
  stage: Stage,
  gateway: 0 | 1,
  termsOf: (config: Node["config"]) => ReturnType<Terms>,
): Ask {
  return {
    name: "use the lock",
    gateway,
    ask: async (node) => {
      const target = { tenant: stage.tenant, lock: shared };
      const outcome = await withLease(node.ports(), target, termsOf(node.config), (lease) =>
        writeTwice(stage, node, lease),
      );
      stage.kernel.note(node.process.name, "used the lock:", outcome.kind);
    },
  };
}

async function writeTwice(stage: Stage, node: Node, lease: Lease): Promise<void> {
  const { world, tenant } = stage;
  const { process } = node;
  for (const turn of [1, 2]) {
    lease.check();
    world.grants.observeBelief({ tenant, lock: shared }, lease, "fence", process.name);
    const actor = `${process.name}/${turn}`;
    const run = { ...bareStart, runId: makeRunId(tenant, process.random.token()), actor };
    const answer = await lease.write("createRun", { tenant, run });
    if (answer.kind !== "admitted" && answer.kind !== "unknown") world.history.refused(actor, answer.kind);
    await process.clock.sleep(100, lease.signal);
  }
}

async function useLockAgain({ probe, tenant }: Stage): Promise<void> {
  const terms = { ...approvalLockTerms(probe.config), waitMs: 2_000 };
  const outcome = await withLease(probe.ports(), { tenant, lock: shared }, terms, async () => "held");
  mustHold(outcome.kind === "finished", "INV-15", () => `the lock cannot be had: ${outcome.kind}`);
}
