// The system as its invariants want it, one operation after the other: admission, jobs, approvals and locks in a few lines.
import type { Final, HistoryRecord, Operation } from "../../proof/history/record.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import type { Outcome } from "./generated-history.ts";

export type Moment = { readonly client: string; readonly invokedAtUs: number; readonly effectAtUs: number };

type Run = {
  readonly runId: string;
  readonly tenant: string;
  readonly isWorked: boolean;
  status: "running" | "waiting" | "succeeded" | "denied" | "cancelled";
  /** From when on clients may know of it. */
  knownUs: number;
  attempt: number;
  holder?: { readonly worker: string; readonly isKnown: boolean };
  nonce?: string;
  decision?: "approved" | "rejected";
};

type Tenant = {
  limit: number;
  readonly living: Set<Run>;
  readonly keys: Map<string, { readonly run: Run; readonly fingerprint: string }>;
  readonly sentKeys: Set<string>;
};

export type CorrectSystem = ReturnType<typeof createCorrectSystem>;

const ttlMs = 2;
const workTenant = "work";
const step = "prepare";
const done = { kind: "ok", answer: { kind: "done" } } as const;
const fail = (code: string): Outcome => ({ kind: "fail", code });

export function createCorrectSystem(random: SeededRandom, cancelledTenants: number) {
  const names = [workTenant, ...Array.from({ length: cancelledTenants }, (_, index) => `ledger-${index}`)];
  const limits = Object.fromEntries(names.map((name) => [name, 3]));
  const tenants = new Map(
    names.map((name): [string, Tenant] => [
      name,
      { limit: 3, living: new Set(), keys: new Map(), sentKeys: new Set() },
    ]),
  );
  const runs = new Map<string, Run>();
  const recent: Run[] = [];
  const lock = { fence: 0, holder: "", expiresUs: 0 };
  const accepted: string[] = [];
  const written: HistoryRecord[] = [];
  let nonces = 0;
  let keys = 0;

  const tenantOf = (name: string) => tenants.get(name) as Tenant;
  const end = (run: Run, status: Run["status"]) => {
    run.status = status;
    tenantOf(run.tenant).living.delete(run);
  };

  const start = (
    { tenant: name, key, fingerprint }: Extract<Operation, { operation: "start" }>,
    { effectAtUs }: Moment,
  ): Outcome => {
    const tenant = tenantOf(name);
    const bound = key === undefined ? undefined : tenant.keys.get(key);
    if (bound !== undefined) {
      if (bound.fingerprint !== fingerprint) return fail("idempotency_key_reused");
      bound.run.knownUs = Math.min(bound.run.knownUs, effectAtUs + 1000);
      return { kind: "ok", answer: { kind: "run", runId: bound.run.runId, replayed: true } };
    }
    if (tenant.living.size >= tenant.limit) return fail("max_concurrent_runs_reached");
    const runId = `run_00_${String(runs.size).padStart(8, "0")}`;
    const isWorked = name === workTenant;
    const run: Run = {
      runId,
      tenant: name,
      isWorked,
      status: "running",
      knownUs: effectAtUs + 1000,
      attempt: 1,
    };
    runs.set(runId, run);
    recent.push(run);
    if (recent.length > 12) recent.shift();
    tenant.living.add(run);
    if (key !== undefined) tenant.keys.set(key, { run, fingerprint });
    return { kind: "ok", answer: { kind: "run", runId, replayed: false } };
  };

  const cancel = (runId: string): Outcome => {
    const run = runs.get(runId);
    if (run === undefined) return fail("run_not_found");
    if (run.status === "running" || run.status === "waiting") end(run, "cancelled");
    return run.status === "cancelled" ? done : fail("run_ended");
  };

  const claim = (worker: string, isKnown: boolean): Outcome => {
    const jobs = [...tenantOf(workTenant).living].filter(
      (run) => run.status === "running" && (run.holder === undefined || !run.holder.isKnown),
    );
    const given = jobs.slice(0, 2).map((run) => {
      // A claim that nobody knows of runs out, and the next attempt is enqueued.
      if (run.holder !== undefined) run.attempt += 1;
      run.holder = { worker, isKnown };
      const { runId, attempt } = run;
      return { jobId: `${runId}:${step}@${attempt}`, runId, step, attempt };
    });
    return { kind: "ok", answer: { kind: "claimed", jobs: given } };
  };

  const report = ({ jobId, nonce, status }: Extract<Operation, { operation: "report" }>): Outcome => {
    const [, runId = "", attempt] = /^(.+):prepare@(\d+)$/.exec(jobId) ?? [];
    const run = runs.get(runId);
    if (run?.nonce === nonce) return { kind: "ok", answer: { kind: "report", outcome: "duplicate" } };
    if (run?.status !== "running" || run.attempt !== Number(attempt)) return fail("stale_claim");
    delete run.holder;
    if (status === "failed") run.attempt += 1;
    else {
      run.nonce = nonce;
      run.status = "waiting";
    }
    return { kind: "ok", answer: { kind: "report", outcome: "accepted" } };
  };

  const decide = ({ approvalId, decision }: Extract<Operation, { operation: "decide" }>): Outcome => {
    const run = runs.get(approvalId.slice(0, approvalId.indexOf(":")));
    if (run?.decision !== undefined) {
      const answer = { kind: "decided", decision: run.decision } as const;
      return run.decision === decision
        ? { kind: "ok", answer }
        : { kind: "fail", code: "approval_already_decided", answer };
    }
    if (run?.status !== "waiting") return fail("run_ended");
    run.decision = decision;
    end(run, decision === "approved" ? "succeeded" : "denied");
    return { kind: "ok", answer: { kind: "decided", decision } };
  };

  const acquire = ({ client, effectAtUs }: Moment): Outcome => {
    if (lock.holder !== "" && lock.expiresUs > effectAtUs) return fail("lock_unavailable");
    lock.fence += random.integer(1, 5);
    lock.holder = client;
    lock.expiresUs = effectAtUs + ttlMs * 1000;
    const element = `element-${lock.fence}`;
    const write = { type: "write", set: "set", fence: lock.fence, writer: client, element } as const;
    written.push({ ...write, accepted: true, atUs: effectAtUs });
    accepted.push(element);
    return { kind: "ok", answer: { kind: "lock", fence: lock.fence } };
  };

  const release = (fence: number, { effectAtUs }: Moment): Outcome => {
    if (lock.fence !== fence || lock.holder === "" || lock.expiresUs <= effectAtUs)
      return fail("lock_not_owned");
    lock.holder = "";
    return done;
  };

  const chooseLedger = (tenant: string, known: readonly Run[]): Operation => {
    const drawn = random.fraction();
    const run = known.length === 0 ? undefined : random.pick(known);
    if (drawn < 0.03) return { operation: "set_limit", tenant, limit: random.integer(1, 4) };
    if (drawn < 0.3 && run) return { operation: "get", tenant, runId: run.runId };
    if (drawn < 0.55 && run) return { operation: "cancel", tenant, runId: run.runId };
    return chooseStart(tenant);
  };

  const chooseStart = (tenant: string): Operation => {
    const fingerprint = `print-${random.chance(0.1) ? "other" : "usual"}`;
    const asked = { operation: "start", tenant, workflow: "idle", fingerprint } as const;
    if (random.chance(0.03)) return asked;
    if (random.chance(0.5)) keys += 1;
    const key = `key-${Math.max(0, keys - (random.chance(0.2) ? random.integer(0, 5) : 0))}`;
    tenantOf(tenant).sentKeys.add(key);
    return { ...asked, key };
  };

  const chooseWork = (client: string, known: readonly Run[]): Operation => {
    const drawn = random.fraction();
    const tenant = workTenant;
    const run = known.length === 0 ? undefined : random.pick(known);
    const waiting = known.filter(({ status }) => status === "waiting");
    const held = known.find(({ holder }) => holder?.worker === client && holder.isKnown);
    if (held !== undefined) {
      nonces += 1;
      const jobId = `${held.runId}:${step}@${held.attempt}`;
      const status = random.chance(0.2) ? "failed" : "succeeded";
      return { operation: "report", tenant, jobId, nonce: `nonce-${nonces}`, status };
    }
    if (drawn < 0.3) return { operation: "claim", tenant, worker: client };
    if (drawn < 0.5 && waiting.length > 0) {
      const approvalId = `${random.pick(waiting).runId}:consent@1`;
      const decision = random.chance(0.6) ? "approved" : "rejected";
      return { operation: "decide", tenant, approvalId, decision, by: client };
    }
    if (drawn < 0.6 && run) return { operation: "get", tenant, runId: run.runId };
    if (drawn < 0.65 && run) return { operation: "cancel", tenant, runId: run.runId };
    if (drawn < 0.8) return { operation: "acquire", tenant, lock: "lock", ttlMs };
    if (lock.holder === client) return { operation: "release", tenant, lock: "lock", fence: lock.fence };
    return chooseStart(tenant);
  };

  return {
    limits,
    /** What the client may know when it asks is what was settled before. */
    choose({ client, invokedAtUs }: Moment): Operation {
      const tenant = random.pick(names);
      const known = recent.filter((run) => run.tenant === tenant && run.knownUs < invokedAtUs);
      return tenant === workTenant ? chooseWork(client, known) : chooseLedger(tenant, known);
    },
    perform(operation: Operation, moment: Moment, isAnswered: boolean): Outcome {
      switch (operation.operation) {
        case "start":
          return start(operation, moment);
        case "cancel":
          return cancel(operation.runId);
        case "get": {
          const run = runs.get(operation.runId);
          if (run === undefined) return fail("run_not_found");
          return { kind: "ok", answer: { kind: "status", status: run.status } };
        }
        case "set_limit":
          tenantOf(operation.tenant).limit = operation.limit;
          return done;
        case "claim":
          return claim(operation.worker, isAnswered);
        case "report":
          return report(operation);
        case "decide":
          return decide(operation);
        case "acquire":
          return acquire(moment);
        case "release":
          return release(operation.fence, moment);
        case "read_set":
          return { kind: "ok", answer: { kind: "set", elements: accepted } };
      }
    },
    end: ({ runId }: Extract<Operation, { operation: "cancel" | "get" }>, _atUs: number) => cancel(runId),
    livingRuns: () => [...runs.values()].filter(({ status }) => status === "running" || status === "waiting"),
    writes: () => written,
    finals(): Final[] {
      return [
        ...[...runs.values()].map(({ runId, tenant, status, nonce }): Final => {
          const completed = nonce === undefined ? [] : [step];
          const told = nonce === undefined ? {} : { [step]: nonce };
          return { of: "run", tenant, runId, status, completed, nonces: told };
        }),
        ...[...runs.values()].flatMap(({ runId, decision }): Final[] => {
          if (decision === undefined) return [];
          return [{ of: "approval", tenant: workTenant, approvalId: `${runId}:consent@1`, state: decision }];
        }),
        ...[...tenants].flatMap(([tenant, { keys: bound, sentKeys }]) =>
          [...sentKeys].map((key): Final => {
            return { of: "key", tenant, key, runId: bound.get(key)?.run.runId ?? "" };
          }),
        ),
        ...names.map((tenant): Final => ({ of: "tenant", tenant, activeRuns: tenantOf(tenant).living.size })),
        { of: "dead_letters", tenant: workTenant, count: 0 },
        { of: "set", set: "set", elements: accepted },
      ];
    },
  };
}
