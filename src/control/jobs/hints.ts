// Hints of jobs that wait for a worker: published after a commit unless a worker here takes the job, and again while the bus is away.
import { type JobHint, notifyTopic } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Bus, BusMessage, BusStream } from "../../ports/bus.ts";
import type { Clock, Random } from "../../ports/ports.ts";
import type { Engine } from "../engine/engine.ts";
import { claimMatches } from "./claim-jobs.ts";

/**
 * In the background. Workers of this process come first: a job that one of them is about to take is told to nobody else. A hint
 * that the bus loses costs time, and the sweep names the job again; one that the bus does not take is published again as soon
 * as it does.
 */
export function publishJob(engine: Engine, tenant: TenantId, hint: JobHint): void {
  const { offers, pendingPublications } = engine;
  const { topic } = hint;
  const publish = (more: boolean) =>
    publishSoon(engine, streamOf(hint), messageOf(engine, tenant, { hint, ...(more ? { more } : {}) }));
  // A job that no worker takes: the first that asks for its topic finds it in the store.
  if (streamOf(hint) === "hints" && engine.bus.passesOver?.("hints", tenant, topic) === true) return;
  const isOurs = streamOf(hint) === "hints" && offers.serves(tenant, topic);
  if (isOurs) {
    offers.learn(tenant, hint);
    if (offers.waiting(tenant, topic).some((offer) => offer.free() > 0))
      engine.background.run("claiming a job", () => claimMatches(engine, tenant, [topic]));
  }
  // What a job asks of its worker is not looked at here: the one that fits may wait elsewhere.
  if (isOurs && hint.requires === undefined && offers.isBusy(tenant, topic)) {
    const isWaiting = () => offers.remembers(tenant, hint);
    pendingPublications.hold(`${tenant} ${topic}`, { isWaiting, publish });
  } else publish(false);
}

function publishSoon(
  { bus, background, pendingPublications }: Engine,
  stream: BusStream,
  message: BusMessage,
): void {
  background.run("publishing a job", async () => {
    const publication = await bus.publish(stream, message);
    if (publication.kind === "unavailable") pendingPublications.keep(stream, message);
  });
}

/** What processes tell each other of a job that waits. */
export type HintMessage = {
  readonly tenant: TenantId;
  readonly hint: JobHint;
  /** The process that says it, and that knows it already; absent in messages of older processes. */
  readonly from?: string;
  /** There are others behind it that are not named one by one: a process with free workers looks into the store. */
  readonly more?: boolean;
};

function messageOf(
  { ports }: Engine,
  tenant: TenantId,
  told: Pick<HintMessage, "hint" | "more">,
): BusMessage {
  const { topic, jobId } = told.hint;
  const message: HintMessage = { tenant, from: ports.instance, ...told };
  return { subject: `${tenant}/${topic}/${jobId}`, body: JSON.stringify(message) };
}

/** No worker may have a held job, and what the control plane does itself is not for workers either. */
function streamOf({ held, topic }: JobHint): BusStream {
  if (held === true) return "checks";
  return topic === notifyTopic ? "notices" : "hints";
}

/** Messages that the bus did not accept, published again until it does: an outage then costs less than a sweep interval. */
export type PendingPublications = {
  keep(stream: BusStream, message: BusMessage): void;
  /** Published in a moment, if it still waits by then. */
  hold(topic: string, held: HeldHint): void;
  /** What is held is published now. */
  close(): void;
};

type HeldHint = {
  isWaiting(): boolean;
  /** `more`: others of the same topic wait behind it. */
  publish(more: boolean): void;
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

  const held = createHeldHints(ports.clock);
  return {
    keep(stream, message) {
      const key = `${stream} ${message.subject}`;
      const [oldest] = pending.keys();
      if (pending.size >= pendingMax && oldest !== undefined && !pending.has(key)) pending.delete(oldest);
      pending.set(key, { stream, message });
      schedule();
    },
    hold: held.hold,
    close() {
      held.close();
      closed = true;
      cancel?.();
    },
  };
}

/**
 * Under load the workers of a process are back within milliseconds, and telling others of what they take cost 12 % of a gateway.
 * Of what still waits then, one hint is published, and the next after twice the time: a process with idle workers that hears of
 * one looks for the others.
 */
const heldMs = { first: 10, most: 1_000 };

/** The sweep names it again by then. */
const heldRounds = 36;
const heldMax = 10_000;

type HeldTopic = { hints: HeldHint[]; waitMs: number; rounds: number; cancel: () => void };

function createHeldHints(clock: Clock): Pick<PendingPublications, "hold" | "close"> {
  const topics = new Map<string, HeldTopic>();
  let total = 0;

  function look(name: string, topic: HeldTopic): void {
    const waiting = topic.rounds < heldRounds ? topic.hints.filter(({ isWaiting }) => isWaiting()) : [];
    const [oldest, ...others] = waiting;
    total += others.length - topic.hints.length;
    topic.hints = others;
    oldest?.publish(others.length > 0);
    if (others.length === 0) topics.delete(name);
    else {
      topic.rounds += 1;
      topic.waitMs = Math.min(heldMs.most, topic.waitMs * 2);
      topic.cancel = clock.timer(topic.waitMs, () => look(name, topic));
    }
  }

  return {
    hold(name, hint) {
      if (total >= heldMax) {
        hint.publish(false);
        return;
      }
      total += 1;
      const known = topics.get(name);
      if (known !== undefined) known.hints.push(hint);
      else {
        const topic: HeldTopic = { hints: [hint], waitMs: heldMs.first, rounds: 0, cancel: () => {} };
        topics.set(name, topic);
        topic.cancel = clock.timer(topic.waitMs, () => look(name, topic));
      }
    },
    close() {
      for (const { hints, cancel } of topics.values()) {
        cancel();
        for (const hint of hints) if (hint.isWaiting()) hint.publish(false);
      }
      topics.clear();
      total = 0;
    },
  };
}
