// The edges of locks and their queues: the last millisecond of a grant, of a ticket, and of what is remembered of both.
import { endingMemoryMs, grantMemoryMs, type LockName, type LockToken } from "../../domain/lock.ts";
import type { RequestOf } from "../../ports/store.ts";
import type { Edge } from "./edge.ts";
import { call, type Harness, only } from "./harness.ts";

const lock: LockName = { namespace: "public", name: "crane" };
const named = (name: string): LockName => ({ namespace: "public", name });

type Wish = Partial<Omit<RequestOf<"acquireLock">, "tenant">>;

function ask({ store, tenant }: Harness, token: LockToken, wish: Wish = {}) {
  return store.acquireLock({ tenant, lock, token, instance: "host:1", ttlMs: 1_000, ...wish }, call);
}

/** What the answer says beside its kind, so that a look is one word or two. */
async function said(answer: ReturnType<typeof ask>): Promise<string> {
  const told = await answer;
  if (told.kind === "acquired") return `acquired ${told.expiresInMs}`;
  return told.kind === "busy" ? `busy ${told.freeInMs} ${told.ahead ?? "-"}` : told.kind;
}

function release({ store, tenant }: Harness, token: LockToken, of = lock) {
  return store.releaseLock({ tenant, lock: of, token }, call);
}

function renew({ store, tenant }: Harness, token: LockToken, ttlMs = 1_000) {
  return store.renewLock({ tenant, lock, token, ttlMs }, call);
}

/** The token of a lock that was just taken. */
async function held(harness: Harness, wish: Wish = {}): Promise<LockToken> {
  const token = harness.token();
  only(await ask(harness, token, wish), "acquired");
  return token;
}

const heldUntil = ["locks.ts now <= grant.expiresAtMs", "perform.ts storeTimeMs > call.notAfterMs"];

const grantEdges: readonly Edge[] = [
  {
    name: "a lock is held to the end of its last millisecond",
    decidedBy: heldUntil,
    ...{ below: "held 1", at: "held 0", above: "free" },
    async look(harness, offset, time) {
      await held(harness);
      await time.pass(1_000 + offset);
      const answer = await harness.store.inspectLock({ tenant: harness.tenant, lock }, call);
      return answer.kind === "held" ? `held ${answer.expiresInMs}` : answer.kind;
    },
  },
  {
    name: "another caller is granted a lock in the millisecond after its end",
    decidedBy: heldUntil,
    ...{ below: "busy 1 -", at: "busy 0 -", above: "acquired 1000" },
    async look(harness, offset, time) {
      await held(harness);
      await time.pass(1_000 + offset);
      return said(ask(harness, harness.token()));
    },
  },
  {
    name: "its holder is told that it has the lock up to its end",
    decidedBy: heldUntil,
    ...{ below: "acquired 1", at: "acquired 0", above: "already_released" },
    async look(harness, offset, time) {
      const token = await held(harness);
      await time.pass(1_000 + offset);
      return said(ask(harness, token));
    },
  },
  {
    name: "a lock is renewed up to its end, from the moment of the renewal",
    decidedBy: heldUntil,
    ...{ below: "renewed acquired 1000", at: "renewed acquired 1000", above: "not_owned already_released" },
    async look(harness, offset, time) {
      const token = await held(harness);
      await time.pass(1_000 + offset);
      return `${(await renew(harness, token)).kind} ${await said(ask(harness, token))}`;
    },
  },
  {
    name: "a renewed lock is held to the end of its new time",
    decidedBy: heldUntil,
    ...{ below: "busy 1 -", at: "busy 0 -", above: "acquired 1000" },
    async look(harness, offset, time) {
      const token = await held(harness);
      await time.pass(400);
      only(await renew(harness, token, 2_000), "renewed");
      await time.pass(2_000 + offset);
      return said(ask(harness, harness.token()));
    },
  },
  {
    name: "a lock is given back up to its end",
    decidedBy: heldUntil,
    ...{ below: "released", at: "released", above: "not_owned" },
    async look(harness, offset, time) {
      const token = await held(harness);
      await time.pass(1_000 + offset);
      return (await release(harness, token)).kind;
    },
  },
  {
    name: "an operator breaks a lock up to its end",
    decidedBy: heldUntil,
    ...{ below: "broken", at: "broken", above: "free" },
    async look(harness, offset, time) {
      const { tenant } = harness;
      const { fence } = only(await ask(harness, harness.token()), "acquired");
      await time.pass(1_000 + offset);
      const request = { tenant, lock, fence, actor: "olga", reason: "stuck" };
      return (await harness.store.breakLock(request, call)).kind;
    },
  },
  ...(["held", "renewed", "released", "broken"] as const).map(
    (last): Edge => ({
      name: `the last grant, which was ${last}, is remembered for ten minutes`,
      decidedBy: ["locks.ts nowMs(context) > grant.expiresAtMs + grantMemoryMs"],
      ...(last === "broken" || last === "released"
        ? { below: "already_released", at: "already_released", above: "acquired 1000" }
        : { below: false, at: false, above: true }),
      async look(harness, offset, time) {
        const { store, tenant } = harness;
        const runLock = { namespace: "job", name: harness.id("job") } as const;
        const token = harness.token();
        const wish = { lock: runLock };
        const { fence } = only(await ask(harness, token, wish), "acquired");
        if (last === "released") await release(harness, token, runLock);
        const broken = { tenant, lock: runLock, fence, actor: "olga", reason: "stuck" };
        if (last === "broken") only(await store.breakLock(broken, call), "broken");
        const renewal = { tenant, lock: runLock, token, ttlMs: 1_000 };
        if (last === "renewed") only(await store.renewLock(renewal, call), "renewed");
        const ended = last === "released" || last === "broken";
        await time.pass((ended ? 0 : 1_000) + grantMemoryMs + offset);
        if (ended) return said(ask(harness, token, wish));
        return only(await store.renewLock(renewal, call), "not_owned").superseded;
      },
    }),
  ),
  {
    name: "a lock that nobody uses is visited a millisecond after its last grant is forgotten",
    decidedBy: ["sweep.ts member < later"],
    ...{ below: [], at: ["due"], above: ["due"] },
    async look(harness, offset, time) {
      await held(harness);
      await time.pass(1_000 + grantMemoryMs + 1 + offset);
      const { partition } = harness;
      const { partitions } = only(await harness.store.findDue({ partitions: [partition] }, call), "found");
      return partitions.map(() => "due");
    },
  },
];

/** The places of tickets in a queue, by asking without taking one. */
async function waiting({ store, tenant }: Harness, of = lock): Promise<number> {
  return only(await store.inspectLock({ tenant, lock: of }, call), "held").waiting;
}

const silentAfter = [
  "tickets.ts now <= expiresAtMs",
  "tickets.ts now > expiresAtMs",
  "tickets.ts member.slice(0, 16) < now",
];

const queueEdges: readonly Edge[] = [
  {
    name: "a ticket is kept to the end of its last millisecond",
    decidedBy: silentAfter,
    ...{ below: "1 busy 8999 1", at: "1 busy 8998 1", above: "0 busy 8997 0" },
    async look(harness, offset, time) {
      await held(harness, { ttlMs: 10_000 });
      await ask(harness, harness.token(), { ticketMs: 1_002 });
      await time.pass(1_002 + offset);
      const before = await waiting(harness);
      return `${before} ${await said(ask(harness, harness.token(), { ticketMs: 5_000 }))}`;
    },
  },
  {
    name: "a ticket is kept for a minute at most",
    decidedBy: silentAfter,
    ...{ below: 1, at: 1, above: 0 },
    async look(harness, offset, time) {
      await held(harness, { ttlMs: 100_000 });
      await ask(harness, harness.token(), { ticketMs: 90_000 });
      await time.pass(60_000 + offset);
      return waiting(harness);
    },
  },
  {
    name: "a lock is handed on to a ticket up to its last millisecond",
    decidedBy: silentAfter,
    ...{ below: "handed on", at: "handed on", above: "free" },
    async look(harness, offset, time) {
      const holder = await held(harness, { ttlMs: 10_000 });
      await ask(harness, harness.token(), { ticketMs: 1_000 });
      await time.pass(1_000 + offset);
      const { granted } = only(await release(harness, holder), "released");
      return granted === undefined ? "free" : "handed on";
    },
  },
  {
    name: "nobody overtakes a ticket before its last millisecond is over",
    decidedBy: silentAfter,
    ...{ below: "busy 0 -", at: "busy 0 -", above: "acquired 1000" },
    async look(harness, offset, time) {
      await held(harness, { ttlMs: 500 });
      await ask(harness, harness.token(), { ticketMs: 1_000 });
      await time.pass(1_000 + offset);
      return said(ask(harness, harness.token()));
    },
  },
  {
    name: "what left a queue is remembered for a minute",
    decidedBy: ["tickets.ts nowMs(context) <= found.untilMs", "tickets.ts now > untilMs"],
    ...{
      below: "already_released released",
      at: "already_released released",
      above: "busy 9999 - not_owned",
    },
    async look(harness, offset, time) {
      const holder = await held(harness, { ttlMs: 10_000 });
      const heir = harness.token();
      await ask(harness, heir, { ticketMs: 5_000 });
      only(await release(harness, holder), "released");
      await time.pass(endingMemoryMs + offset - 1);
      only(await release(harness, heir), "not_owned");
      await held(harness, { ttlMs: 10_000 });
      await time.pass(1);
      return `${await said(ask(harness, holder))} ${(await release(harness, holder)).kind}`;
    },
  },
  {
    name: "so much of what left a queue is remembered",
    decidedBy: ['tickets.ts records.size("ending", scope) >= 2 * endingsMax'],
    ...{ below: "already_released", at: "already_released", above: "busy 60000 0" },
    async look(harness, offset, time) {
      const wish = {
        lock: { namespace: "job", name: harness.id("job") },
        ttlMs: 60_001,
        ticketMs: 60_000,
      } as const;
      const leave = async (token: LockToken) => {
        only(await ask(harness, token, wish), "busy");
        only(await release(harness, token, wish.lock), "released");
      };
      await held(harness, wish);
      const first = harness.token();
      await leave(first);
      await time.pass(1);
      const others = Array.from({ length: 999 + offset }, () => harness.token());
      while (others.length > 0) await Promise.all(others.splice(0, 50).map(leave));
      return said(ask(harness, first, wish));
    },
  },
];

const quotaEdges: readonly Edge[] = [
  {
    name: "a lock counts for the quota of locks to the end of its last millisecond",
    decidedBy: [
      "tickets.ts size < quota",
      "tickets.ts size - ended.length >= quota",
      "tickets.ts member.slice(0, 16) < now",
    ],
    ...{ below: "3 lock_quota_reached", at: "3 lock_quota_reached", above: "2 acquired 1000" },
    async look(harness, offset, time) {
      for (const name of ["a", "b"]) await held(harness, { lock: named(name), ttlMs: 10_000 });
      await held(harness, { lock: named("c") });
      await time.pass(1_000 + offset);
      const { used } = only(await harness.store.countUsage({ tenant: harness.tenant }, call), "counted");
      return `${used.locks} ${await said(ask(harness, harness.token(), { lock: named("d") }))}`;
    },
  },
  {
    name: "a tenant holds as many locks as its quota says",
    decidedBy: ["tickets.ts size < quota", "tickets.ts size - ended.length >= quota"],
    ...{ below: "acquired 1000", at: "acquired 1000", above: "lock_quota_reached" },
    async look(harness, offset) {
      for (let count = 1; count < 3 + offset; count += 1) await held(harness, { lock: named(`${count}`) });
      return said(ask(harness, harness.token()));
    },
  },
  {
    name: "a ticket counts for the quota of tickets to the end of its last millisecond",
    decidedBy: [
      "tickets.ts size < quota",
      "tickets.ts size - ended.length >= quota",
      "tickets.ts member.slice(0, 16) < now",
    ],
    ...{ below: "3 ticket_quota_reached", at: "3 ticket_quota_reached", above: "2 busy 8999 0" },
    async look(harness, offset, time) {
      for (const name of ["a", "b"]) await held(harness, { lock: named(name), ttlMs: 10_000 });
      await ask(harness, harness.token(), { lock: named("a"), ticketMs: 1_000 });
      for (const _ of "12") await ask(harness, harness.token(), { lock: named("a"), ticketMs: 5_000 });
      await time.pass(1_000 + offset);
      const { used } = only(await harness.store.countUsage({ tenant: harness.tenant }, call), "counted");
      const own = ask(harness, harness.token(), { lock: named("b"), ticketMs: 5_000 });
      return `${used.lock_tickets} ${await said(own)}`;
    },
  },
  {
    name: "a tenant has as many tickets as its quota says",
    decidedBy: ["tickets.ts size < quota", "tickets.ts size - ended.length >= quota"],
    ...{ below: "busy 1000 1", at: "busy 1000 2", above: "ticket_quota_reached" },
    async look(harness, offset) {
      await held(harness);
      const wish = { ticketMs: 5_000 };
      for (let count = 1; count < 3 + offset; count += 1) await ask(harness, harness.token(), wish);
      return said(ask(harness, harness.token(), wish));
    },
  },
];

export const lockEdges: readonly Edge[] = [...grantEdges, ...queueEdges, ...quotaEdges];
