// Hints that wait a moment for each other: the first of a group leaves at once, and one message stands for those that follow it.
import type { JobHint } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/ports.ts";

/** What one message names. All of its jobs have the same tenant, topic and requirements. */
export type HintBatch = {
  readonly tenant: TenantId;
  readonly hint: JobHint;
  /** Others that wait, by name. */
  readonly also: readonly JobHint[];
  /** Still others wait that are not named: whoever has free workers looks into the store. */
  readonly unnamed: boolean;
};

export type HeldHints = {
  /** At once after a silence of its group, or else with the group's next message. */
  publish(tenant: TenantId, hint: JobHint): void;
  /** Workers of this process are about to take it: published only if it still waits in a moment. */
  publishIfLeft(tenant: TenantId, hint: JobHint): void;
  /** What is held is published now. */
  close(): void;
};

type Scene = {
  readonly clock: Clock;
  publish(batch: HintBatch): void;
  /** No worker of this process has been matched with it. */
  isLeft(tenant: TenantId, hint: JobHint): boolean;
  /** Another process has said that it has workers for this topic. */
  isPolledElsewhere(tenant: TenantId, topic: string): boolean;
};

/**
 * A message for every job of a topic that nobody polls cost the gateway 24 us of 64 for each start, and NATS 20. Workers of this
 * process are back within milliseconds under load: publishing what they take cost 12 % of a gateway. The wait doubles
 * with each message, unless another process has workers and none are here: those hear of a job within the first wait.
 */
const waitMs = { first: 10, unknown: 100, most: 1_000 };

/** Processes announce their workers every 5 s: by then this one knows whether anybody polls the topic. */
const unknownForMs = 6_000;

/** Of one message: 20 KB, and about what 10 ms bring at 10,000 jobs a second. */
const namedMax = 100;

/** The sweep names a job again by then. */
const oursForMs = 30_000;

/** What is beyond is published job by job. */
const groupsMax = 10_000;

/** Jobs of which one worker that can do one can do all: none is represented by another that asks for less. */
type Group = {
  readonly name: string;
  readonly tenant: TenantId;
  readonly topic: string;
  readonly sinceMs: number;
  waitMs: number;
  cancel(): void;
  /** The newest of those that must be published, and whether there are others. */
  pending: JobHint[];
  unnamed: boolean;
  /** The newest of those that workers of this process may take first. */
  ours: Array<{ readonly hint: JobHint; readonly heldAtMs: number }>;
};

export function createHeldHints(scene: Scene): HeldHints {
  const { clock } = scene;
  const groups = new Map<string, Group>();
  let isClosed = false;

  function wait(group: Group, forMs: number): void {
    group.cancel();
    group.waitMs = forMs;
    group.cancel = clock.timer(forMs, () => look(group));
  }

  function look(group: Group): void {
    const isOfOurs = group.pending.length === 0;
    if (publishPending(scene, group)) wait(group, nextWaitMs(scene, group, isOfOurs));
    // Under load a moment without such a job says little: that it is waited for less and less halves the messages of two gateways.
    else if (group.waitMs > waitMs.first) wait(group, Math.max(waitMs.first, group.waitMs / 2));
    else groups.delete(group.name);
  }

  /** Of this name, or a new one; undefined when there is no place for another. */
  function groupOf(tenant: TenantId, { topic, requires = "" }: JobHint, begin: (group: Group) => void) {
    const name = `${tenant} ${topic} ${requires}`;
    const known = groups.get(name);
    if (known !== undefined || isClosed || groups.size >= groupsMax) return known;
    const group: Group = {
      ...{ name, tenant, topic, sinceMs: clock.monotonicMs(), waitMs: waitMs.first, cancel: () => {} },
      ...{ pending: [], unnamed: false, ours: [] },
    };
    groups.set(name, group);
    begin(group);
    return group;
  }

  /** Not yet: a commit that enqueues sixty jobs publishes one message. */
  function publishSoon(group: Group): void {
    queueMicrotask(() => {
      if (groups.get(group.name) !== group) return;
      publishPending(scene, group);
      wait(group, waitMs.first);
    });
  }

  return {
    publish(tenant, hint) {
      const group = groupOf(tenant, hint, publishSoon);
      if (group === undefined) return scene.publish({ tenant, hint, also: [], unnamed: false });
      if (group.pending.push(hint) > namedMax) {
        group.pending.shift();
        group.unnamed = true;
      }
      // Its workers have come since, or those of this process were busy: it must not wait as long.
      if (group.waitMs > waitMs.first && scene.isPolledElsewhere(tenant, hint.topic))
        wait(group, waitMs.first);
    },
    publishIfLeft(tenant, hint) {
      const group = groupOf(tenant, hint, (begun) => wait(begun, waitMs.first));
      if (group === undefined) return scene.publish({ tenant, hint, also: [], unnamed: false });
      if (group.ours.push({ hint, heldAtMs: clock.monotonicMs() }) > namedMax) group.ours.shift();
    },
    close() {
      isClosed = true;
      for (const group of groups.values()) {
        group.cancel();
        publishPending(scene, group);
      }
      groups.clear();
    },
  };
}

/** Publishes one message for all that wait; false when there is nothing to publish. */
function publishPending(scene: Scene, group: Group): boolean {
  const { tenant, pending, unnamed } = group;
  const nowMs = scene.clock.monotonicMs();
  group.ours = group.ours.filter(
    ({ hint, heldAtMs }) => nowMs - heldAtMs < oursForMs && scene.isLeft(tenant, hint),
  );
  // One of ours stands for the others: a process without idle workers that remembered them all would claim them in vain.
  const named = pending.length > 0 ? pending : group.ours.splice(0, 1).map((held) => held.hint);
  const [hint, ...also] = named;
  if (hint === undefined) return false;
  scene.publish({ tenant, hint, also, unnamed: unnamed || group.ours.length > 0 });
  group.pending = [];
  group.unnamed = false;
  return true;
}

function nextWaitMs({ clock }: Scene, group: Group, isOfOurs: boolean): number {
  const isUnknown = !isOfOurs && clock.monotonicMs() - group.sinceMs < unknownForMs;
  return Math.min(isUnknown ? waitMs.unknown : waitMs.most, group.waitMs * 2);
}
