// Operation tables with one mistake each about dead letters, reruns and the queues of locks.
import { type Operations, operations } from "../../../src/adapters/operations/perform.ts";
import type { Ticket } from "../../../src/adapters/operations/records.ts";
import { over } from "./broken-records.ts";

export const letterStaysOpen: Operations = {
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

export const reopenedPastTheLimit: Operations = {
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
export const emptyResultsTakenOver: Operations = {
  ...operations,
  commit: (context, request) => {
    const { change } = request;
    const records = change.records.map((record) =>
      record.key.startsWith("result/") ? { ...record, body: '{"output":{}}' } : record,
    );
    return operations.commit(context, { ...request, change: { ...change, records } });
  },
};

export const whoLeavesKeepsItsPlace: Operations = {
  ...operations,
  releaseLock: (context, request) => {
    const { records } = context;
    const kept = over(context, {
      erase: (kind, scope, member) => {
        const ticket = kind === "ticket" ? records.get("ticket", scope, member) : undefined;
        if (ticket?.token !== request.token) records.erase(kind, scope, member);
      },
    });
    return operations.releaseLock(kept, request);
  },
};

/** A ticket that nobody shows any more is as good as another. */
export const silentTicketsWin: Operations = {
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

/** Whoever asks first when the lock is free gets it, whoever waits. */
export const queueOvertaken: Operations = {
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

/** Whoever holds the lock by now, not only who was seen. */
export const breaksAnyGrant: Operations = {
  ...operations,
  breakLock: (context, request) => {
    const { tenant, lock } = request;
    const held = context.records.get("lock", tenant, `${lock.namespace}/${lock.name}`);
    return operations.breakLock(context, held === undefined ? request : { ...request, fence: held.fence });
  },
};
