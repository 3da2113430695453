// Known mistakes about messages, dead letters, reruns, queues of locks and followed events, put in on purpose.

import { type Operations, operations } from "../../../src/adapters/operations/perform.ts";
import type { Context, Ticket } from "../../../src/adapters/operations/records.ts";
import type { Bus, ConsumerTerms, Handlers } from "../../../src/ports/bus.ts";
import type { Store } from "../../../src/ports/store.ts";
import { asBaseline, busyDay, crowdedLocks } from "../../simulation/narrow-swarm.ts";
import type { Swap } from "../planted-bug.ts";
import { over } from "./broken-records.ts";

const letterStaysOpen: Operations = {
  ...operations,
  deliver: (context, request) => {
    const { records } = context;
    const scope = `${request.tenant}/deadLetter`;
    const { entry } = request;
    const before = entry.kind === "retry" ? records.get("document", scope, entry.letterId) : undefined;
    const outcome = operations.deliver(context, request);
    if (entry.kind === "retry" && before !== undefined)
      records.put("document", scope, entry.letterId, before);
    return outcome;
  },
};

const reopenedPastTheLimit: Operations = {
  ...operations,
  deliver: (context, request) => {
    if (request.entry.kind !== "retry") return operations.deliver(context, request);
    const { records } = context;
    const uncounted = over(context, {
      size: (kind, scope) => (kind === "active" ? 0 : records.size(kind, scope)),
    });
    return operations.deliver(uncounted, request);
  },
};

/** What is taken over loses what was in it. */
const emptyResultsTakenOver: Operations = {
  ...operations,
  commit: (context, request) => {
    const { change } = request;
    const records = change.records.map((record) =>
      record.key.startsWith("result/") ? { ...record, body: '{"output":{}}' } : record,
    );
    return operations.commit(context, { ...request, change: { ...change, records } });
  },
};

const whoLeavesKeepsItsPlace: Operations = {
  ...operations,
  acquireLock: (context, request) => {
    const leaves = request.ticketMs === undefined;
    return operations.acquireLock(leaves ? keepingTicket(context, request.token) : context, request);
  },
  releaseLock: (context, request) => operations.releaseLock(keepingTicket(context, request.token), request),
};

function keepingTicket(context: Context, token: string): Context {
  const { records } = context;
  return over(context, {
    erase: (kind, scope, member) => {
      const ticket = kind === "ticket" ? records.get("ticket", scope, member) : undefined;
      if (ticket?.token !== token) records.erase(kind, scope, member);
    },
  });
}

/** A ticket that nobody shows any more is as good as another. */
const silentTicketsWin: Operations = {
  ...operations,
  releaseLock: (context, request) => {
    const { records } = context;
    const isTicket = (value: object): value is Ticket => "expiresAtMs" in value;
    const trusting = over(context, {
      scan: (kind, scope, after, limit) =>
        records.scan(kind, scope, after, limit).map(({ member, value }) => ({
          member,
          value:
            kind === "ticket" && isTicket(value) ? { ...value, expiresAtMs: Number.MAX_SAFE_INTEGER } : value,
        })),
    });
    return operations.releaseLock(trusting, request);
  },
};

/** The first to ask when the lock is free gets it, although others wait. */
const queueOvertaken: Operations = {
  ...operations,
  acquireLock: (context, request) => {
    const { records } = context;
    const blind = over(context, {
      size: (kind, scope) => (kind === "ticket" ? 0 : records.size(kind, scope)),
    });
    const outcome = operations.acquireLock(context, request);
    const isPassedOver = outcome.kind === "busy" && outcome.freeInMs === 0;
    return isPassedOver ? operations.acquireLock(blind, request) : outcome;
  },
};

/** The present holder of the lock, not only the one that was seen. */
const breaksAnyGrant: Operations = {
  ...operations,
  breakLock: (context, request) => {
    const { tenant, lock } = request;
    const held = context.records.get("lock", tenant, `${lock.namespace}/${lock.name}`);
    return operations.breakLock(context, held === undefined ? request : { ...request, fence: held.fence });
  },
};

type Consuming = { readonly terms: ConsumerTerms; readonly handlers: Handlers };

function consuming(bus: Bus, change: (given: Consuming) => Consuming): Bus {
  return {
    ...bus,
    consume: (terms, handlers) => {
      const changed = change({ terms, handlers });
      return bus.consume(changed.terms, changed.handlers);
    },
  };
}

function dropBeforeLetter(bus: Bus): Bus {
  return consuming(bus, ({ terms, handlers }) => ({
    terms,
    handlers: {
      ...handlers,
      giveUp: async (delivery, because) => {
        handlers.giveUp(delivery, because).catch(() => {});
      },
    },
  }));
}

function deliverWithoutEnd(bus: Bus): Bus {
  return consuming(bus, ({ terms, handlers }) => ({
    terms: { ...terms, deliveriesMax: Number.MAX_SAFE_INTEGER },
    handlers,
  }));
}

/** As if somebody had the lock of a run that is over. */
function endedRunsAreBusy(store: Store): Store {
  return {
    ...store,
    deliver: async (request, options) => {
      const answer = await store.deliver(request, options);
      if (answer.kind !== "run_ended" && answer.kind !== "run_not_found" && answer.kind !== "stale_claim")
        return answer;
      if (request.entry.kind !== "result") return answer;
      return { kind: "run_busy", instance: "somebody", storeTimeMs: answer.storeTimeMs };
    },
  };
}

/** The outbox is emptied when the bus has acknowledged: what it forgets then is never told again. */
function heldJobsAreToldOnce(store: Store): Store {
  return {
    ...store,
    sweep: async (request, options) => {
      const answer = await store.sweep(request, options);
      if (answer.kind !== "swept") return answer;
      return { ...answer, unclaimed: answer.unclaimed.filter(({ job }) => job.held !== true) };
    },
  };
}

function rowLeftOut(store: Store): Store {
  return {
    ...store,
    readEvents: async (request, options) => {
      const answer = await store.readEvents(request, options);
      if (answer.kind !== "events" || answer.events.length < 3) return answer;
      return { ...answer, events: answer.events.toSpliced(1, 1) };
    },
  };
}

function rowRepeated(store: Store): Store {
  return {
    ...store,
    readEvents: (request, options) =>
      store.readEvents({ ...request, after: Math.max(0, request.after - 1) }, options),
  };
}

export const swappedBus: Readonly<Record<string, Swap>> = {
  drop_before_letter: {
    what: "a message is dropped while its dead letter is still being written",
    caughtBy: ["INV-23"],
    seedsMax: 500,
    swarm: (swarm) => asBaseline(busyDay(swarm)),
    wrapBus: dropBeforeLetter,
  },
  deliveries_without_end: {
    what: "nobody counts how often a message is delivered",
    caughtBy: ["INV-23"],
    seedsMax: 500,
    wrapBus: deliverWithoutEnd,
  },
  ended_runs_are_busy: {
    what: "the result of a run that has ended waits for its lock, again and again",
    caughtBy: ["INV-23"],
    seedsMax: 500,
    wrapStore: endedRunsAreBusy,
  },
  outbox_forgotten_on_acknowledgement: {
    what: "what the bus has acknowledged is not told again, although it may forget it",
    caughtBy: ["INV-20"],
    seedsMax: 500,
    wrapStore: heldJobsAreToldOnce,
  },
  letter_stays_open: {
    what: "a dead letter that was retried can be retried again",
    caughtBy: ["letters"],
    seedsMax: 500,
    swarm: busyDay,
    table: letterStaysOpen,
  },
  reopened_past_the_limit: {
    what: "the retry of a dead letter opens a run although all slots are taken",
    caughtBy: ["INV-17"],
    seedsMax: 500,
    swarm: (swarm) => ({ ...busyDay(swarm), tight: true }),
    table: reopenedPastTheLimit,
  },
  empty_results_taken_over: {
    what: "a rerun takes over that a step was done, and not what came of it",
    caughtBy: ["INV-22", "reruns"],
    seedsMax: 500,
    swarm: busyDay,
    table: emptyResultsTakenOver,
  },
  who_leaves_keeps_its_place: {
    what: "a lock is handed to somebody who has left its queue",
    caughtBy: ["queue"],
    seedsMax: 500,
    table: whoLeavesKeepsItsPlace,
  },
  silent_tickets_win: {
    what: "a lock is handed to somebody who has not been heard of for too long",
    caughtBy: ["queue"],
    seedsMax: 500,
    swarm: crowdedLocks,
    table: silentTicketsWin,
  },
  queue_overtaken: {
    what: "a caller that asks when the lock is free gets it before those that wait",
    caughtBy: ["queue"],
    seedsMax: 500,
    swarm: crowdedLocks,
    table: queueOvertaken,
  },
  breaks_any_grant: {
    what: "an operator takes the lock from somebody who got it after the one that was seen",
    caughtBy: ["INV-13", "INV-15"],
    seedsMax: 500,
    table: breaksAnyGrant,
  },
  sink_does_not_compare: {
    what: "what a lock protects takes writes of earlier holders",
    caughtBy: ["INV-12"],
    seedsMax: 500,
    sinkDoesNotCompare: true,
  },
  event_row_left_out: {
    what: "a read of events leaves one out",
    caughtBy: ["INV-17"],
    seedsMax: 500,
    wrapStore: rowLeftOut,
  },
  event_row_repeated: {
    what: "a read of events begins with the last row that was read",
    caughtBy: ["INV-17"],
    seedsMax: 500,
    wrapStore: rowRepeated,
  },
};
