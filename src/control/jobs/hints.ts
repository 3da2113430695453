// Hints of jobs that wait for a worker: published after a commit unless a worker here takes the job, and again while the bus is away.
import { type JobHint, notifyTopic } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Bus, BusMessage, BusStream } from "../../ports/bus.ts";
import type { Clock, Random } from "../../ports/ports.ts";
import type { Engine } from "../engine/engine.ts";
import { claimMatches } from "./claim-jobs.ts";
import type { HintBatch } from "./held-hints.ts";

/**
 * In the background. Workers of this process come first: a job that one of them is about to take is published to nobody else. A hint
 * that the bus loses costs time, and the sweep names the job again; one that the bus does not take is published again as soon
 * as it does.
 */
export function publishJob(engine: Engine, tenant: TenantId, hint: JobHint): void {
  const { offers, heldHints } = engine;
  const { topic } = hint;
  const stream = streamOf(hint);
  if (stream !== "hints") {
    const message = messageOf(engine, { tenant, hint });
    publishSoon(engine, { stream, message, again: message });
    return;
  }
  // A job that no worker takes: the first that asks for its topic finds it in the store.
  if (engine.bus.passesOver?.("hints", tenant, topic) === true) return;
  const isOurs = offers.serves(tenant, topic);
  if (isOurs) {
    offers.learn(tenant, hint);
    if (offers.waiting(tenant, topic).some((offer) => offer.free() > 0))
      engine.background.run("claiming a job", () => claimMatches(engine, tenant, [topic]));
  }
  // What a job asks of its worker is not looked at here: the one that fits may wait elsewhere.
  if (isOurs && hint.requires === undefined && offers.isBusy(tenant, topic))
    heldHints.publishIfLeft(tenant, hint);
  else heldHints.publish(tenant, hint);
}

export function publishHints(engine: Engine, { tenant, hint, also, unnamed }: HintBatch): void {
  const others = {
    ...(also.length > 0 || unnamed ? { more: true } : {}),
    ...(unnamed ? { unnamed } : {}),
  };
  const named = also.map(({ jobId, runId, createdAtMs }) => ({ jobId, runId, createdAtMs }));
  const message = messageOf(engine, {
    tenant,
    hint,
    ...others,
    ...(named.length > 0 ? { also: named } : {}),
  });
  // Thousands may wait for the bus to come back: those that hear of it late find the others in the store.
  const again = messageOf(engine, { tenant, hint, ...others });
  publishSoon(engine, { stream: "hints", message, again });
}

type Publishing = {
  readonly stream: BusStream;
  readonly message: BusMessage;
  /** In place of the message when the bus does not take it now. */
  readonly again: BusMessage;
};

function publishSoon(
  { bus, background, pendingPublications }: Engine,
  { stream, message, again }: Publishing,
): void {
  background.run("publishing a job", async () => {
    const publication = await bus.publish(stream, message);
    if (publication.kind === "unavailable") pendingPublications.keep(stream, again);
  });
}

/** What processes publish to each other of a job that waits. */
export type HintMessage = {
  readonly tenant: TenantId;
  readonly hint: JobHint;
  /** The process that says it, and that knows it already; absent in messages of older processes. */
  readonly from?: string;
  /** There are others behind it: a process that cannot read `also` looks into the store. */
  readonly more?: boolean;
  /** Others of the same topic that ask the same of their worker. */
  readonly also?: ReadonlyArray<Pick<JobHint, "jobId" | "runId" | "createdAtMs">>;
  /** There are still others: a process with workers that wait looks into the store. */
  readonly unnamed?: boolean;
};

function messageOf({ ports }: Engine, content: Omit<HintMessage, "from">): BusMessage {
  const { tenant, hint } = content;
  const message: HintMessage = { from: ports.instance, ...content };
  return { subject: `${tenant}/${hint.topic}/${hint.jobId}`, body: JSON.stringify(message) };
}

/** The jobs that a message names. */
export function namedIn({ hint, also = [] }: HintMessage): readonly JobHint[] {
  return [hint, ...also.map((other) => ({ ...hint, ...other }))];
}

/** Whether others wait that the message does not name. */
export function hasUnnamed({ more, also, unnamed }: HintMessage): boolean {
  return unnamed === true || (more === true && also === undefined);
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
