// Hints of jobs that wait for a worker: published after a commit, published again while the bus is away, and remembered.
import { type JobHint, type JobId, notifyTopic } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Bus, BusMessage, BusStream } from "../../ports/bus.ts";
import type { Clock, Random } from "../../ports/ports.ts";
import type { Engine } from "../engine/engine.ts";

/**
 * In the background. A hint that the bus loses costs time, and the sweep names the job again; one that the bus does not take is
 * published again as soon as it does.
 */
export function publishJob(
  {
    bus,
    offers,
    background,
    pendingPublications,
  }: Pick<Engine, "bus" | "offers" | "background" | "pendingPublications">,
  tenant: TenantId,
  hint: JobHint,
): void {
  const stream = streamOf(hint);
  const message = offers.hintMessage(tenant, hint);
  background.run("publishing a job", async () => {
    const publication = await bus.publish(stream, message);
    if (publication.kind === "unavailable") pendingPublications.keep(stream, message);
  });
}

/** No worker may have a held job, and what the control plane does itself is not for workers either. */
function streamOf({ held, topic }: JobHint): BusStream {
  if (held === true) return "checks";
  return topic === notifyTopic ? "notices" : "hints";
}

/** Messages that the bus did not accept, published again until it does: an outage then costs less than a sweep interval. */
export type PendingPublications = {
  keep(stream: BusStream, message: BusMessage): void;
  close(): void;
};

/** Those that do not fit are left to the sweep, which names every job that nobody has claimed after 30 s. */
const pendingMax = 10_000;
const againAfterMs = 1_000;
const togetherMax = 100;

type PendingPublication = { readonly stream: BusStream; readonly message: BusMessage };

export function createPendingPublications(
  ports: { readonly clock: Clock; readonly random: Random },
  bus: Bus,
): PendingPublications {
  const pending = new Map<string, PendingPublication>();
  let cancel: (() => void) | undefined;
  let closed = false;

  /** Spread, so that the processes that an outage has cut off do not come back all at once. */
  const schedule = () => {
    if (closed || pending.size === 0) return;
    const delayMs = againAfterMs * (0.5 + 0.5 * ports.random.fraction());
    cancel ??= ports.clock.timer(delayMs, () => {
      void publishAll().finally(() => {
        cancel = undefined;
        schedule();
      });
    });
  };

  /** One goes first: while it is not taken the others would not be either. */
  async function publishAll(): Promise<void> {
    for (let together = 1; !closed && pending.size > 0; together = togetherMax) {
      const some = [...pending.entries()].slice(0, together);
      const taken = await Promise.all(some.map(([key, one]) => publishOne(key, one)));
      if (taken.includes(false)) return;
    }
  }

  async function publishOne(key: string, one: PendingPublication): Promise<boolean> {
    const publication = await bus.publish(one.stream, one.message);
    if (publication.kind !== "published") return false;
    if (pending.get(key) === one) pending.delete(key);
    return true;
  }

  return {
    keep(stream, message) {
      const key = `${stream} ${message.subject}`;
      const [oldest] = pending.keys();
      if (pending.size >= pendingMax && oldest !== undefined && !pending.has(key)) pending.delete(oldest);
      pending.set(key, { stream, message });
      schedule();
    },
    close() {
      closed = true;
      cancel?.();
    },
  };
}

/** Jobs of one topic with the same requirements: a worker that can do one can do them all. */
export type HintGroup = {
  readonly requires: string | undefined;
  readonly size: number;
  /** Oldest first; thousands may wait, so they are looked at one by one. */
  readonly hints: Iterable<JobHint>;
};

/** Jobs that nobody has claimed, as far as this process knows, by tenant, topic and what they require of a worker. */
type HintBook = {
  learn(tenant: TenantId, hint: JobHint): void;
  /** A job that was taken from here and still waits: its turn comes before that of all others. */
  putBack(tenant: TenantId, hint: JobHint): void;
  forget(tenant: TenantId, hint: JobHint): void;
  /** The group whose oldest job waits longest comes first. */
  groups(tenant: TenantId, topic: string): readonly HintGroup[];
};

/** Those put back, and the others. */
type Waiting = { readonly back: Map<JobId, JobHint>; readonly line: Map<JobId, JobHint> };
type Topic = Map<string | undefined, Waiting>;

export function createHintBook(hintsMax: number): HintBook {
  const topics = new Map<string, Topic>();
  let total = 0;
  const keyOf = (tenant: TenantId, topic: string) => `${tenant} ${topic}`;

  /** Forgets the topic known longest: the store lists its jobs to the next poll, and the sweep names them again. */
  function forgetAnother(key: string): boolean {
    for (const [other, groups] of topics) {
      if (other === key) continue;
      for (const waiting of groups.values()) total -= sizeOf(waiting);
      topics.delete(other);
      return true;
    }
    return false;
  }

  function add(tenant: TenantId, hint: JobHint, where: keyof Waiting): void {
    const key = keyOf(tenant, hint.topic);
    const groups: Topic = topics.get(key) ?? new Map();
    const waiting = groups.get(hint.requires) ?? { back: new Map(), line: new Map() };
    if (waiting.back.has(hint.jobId) || waiting.line.has(hint.jobId)) return;
    // Nobody's backlog may keep the jobs of others from their workers: another topic gives way.
    if (total >= hintsMax && !forgetAnother(key)) return;
    total += 1;
    waiting[where].set(hint.jobId, hint);
    topics.set(key, groups.set(hint.requires, waiting));
  }

  return {
    learn: (tenant, hint) => add(tenant, hint, "line"),
    putBack: (tenant, hint) => add(tenant, hint, "back"),
    forget(tenant, { jobId, topic, requires }) {
      const key = keyOf(tenant, topic);
      const groups = topics.get(key);
      const waiting = groups?.get(requires);
      if (groups === undefined || waiting === undefined) return;
      if (!waiting.back.delete(jobId) && !waiting.line.delete(jobId)) return;
      total -= 1;
      if (sizeOf(waiting) === 0) groups.delete(requires);
      if (groups.size === 0) topics.delete(key);
    },
    groups(tenant, topic) {
      const groups = [...(topics.get(keyOf(tenant, topic)) ?? [])].map(([requires, waiting]) => {
        const hints = oldestFirst(waiting);
        const [oldest] = oldestFirst(waiting);
        return { requires, size: sizeOf(waiting), hints, sinceMs: oldest?.createdAtMs ?? 0 };
      });
      return groups.sort((left, right) => left.sinceMs - right.sinceMs);
    },
  };
}

function sizeOf({ back, line }: Waiting): number {
  return back.size + line.size;
}

function* oldestFirst({ back, line }: Waiting): Iterable<JobHint> {
  yield* back.values();
  yield* line.values();
}
