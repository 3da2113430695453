// An owner of a run, and of a job that is being checked, stands still past its lock's ttl and then writes.
import type { JobId } from "../../domain/job.ts";
import type { RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { runtime } from "../../sdk/runtime.ts";
import { type Check, check, type Stage, type Table } from "../drill.ts";
import { waitUntil } from "../load/times.ts";
import { areAllApplied, type ClaimedResult, claimJobs, reportUntilDurable } from "../locks/claimed-run.ts";
import { nameAgain, startHeldJob, workOff } from "../locks/held-job.ts";
import { type LockOwners, type OwnerCall, watchOwners } from "../locks/lock-owners.ts";
import type { DrillTenant, Inside } from "../target/target.ts";

export type StaleWriter = {
  readonly lock: "run" | "job";
  readonly ttlMs: number;
  /** From A's request for the lock until B was granted it. */
  readonly passedMs: number;
  readonly fences: { readonly a: number; readonly b: number };
  /** What the store said to A when it came back. */
  readonly renewal: string;
  readonly write: string;
  /** What A wanted to change, before its write arrived and after it was answered. */
  readonly before: string;
  readonly after: string;
  /** What B made of it. */
  readonly end: { readonly expected: string; readonly seen: string };
};

type Terms = { readonly inside: Inside; readonly ttlMs: number };

/** How long after the ttl everything must be over: a scheduler that found the lock busy asks again after 10 s. */
const slackMs = 30_000;

/** The owner's commit is ready when it stands still. */
export async function staleRunOwner(stage: Stage, { inside, ttlMs }: Terms): Promise<StaleWriter> {
  const { target, signal } = stage;
  const tenant = await target.createTenant({ results_strategy: "retry", results_wait: "jitter" });
  const run = await claimJobs(tenant, { jobs: 2 });
  const [one, other] = run.results as [ClaimedResult, ClaimedResult];
  const [first = tenant.client.url, second = first] = target.urls;
  const paused = pauseFirstOwner(stage, { inside, ttlMs }, { tenant: tenant.id, namespace: "run" });
  const look = () => lookAtRun(inside, tenant, run.runId);
  try {
    await reportUntilDurable(tenant.clientAt(first, "worker"), one, signal);
    await paused.isReadyToWrite();
    const [seen] = await Promise.all([
      paused.passOn(look),
      reportUntilDurable(tenant.clientAt(second, "worker"), other, signal),
    ]);
    const { status } = await tenant.client.runs.wait(run.runId, { timeoutMs: slackMs, signal });
    const isWhole = await areAllApplied(tenant, run);
    return {
      ...{ lock: "run", ttlMs, ...seen },
      end: {
        expected: "succeeded, both results in it once",
        seen: `${status}, ${isWhole ? "both results in it once" : "results missing"}`,
      },
    };
  } finally {
    paused.stop();
  }
}

/** The check denies what the paused owner asked about, and allows it to the next one. */
export async function staleJobOwner(stage: Stage, { inside, ttlMs }: Terms): Promise<StaleWriter> {
  const { target, signal } = stage;
  const tenant = await target.createTenant();
  const paused = pauseFirstOwner(stage, { inside, ttlMs }, { tenant: tenant.id, namespace: "job" });
  let questions = 0;
  const unanswer = inside.answerChecks(tenant.id, async () => {
    questions += 1;
    return questions === 1 ? { verdict: "deny", reason: "said before the pause" } : { verdict: "allow" };
  });
  try {
    const job = await startHeldJob(tenant);
    const look = () => lookAtJob(inside, tenant, job.jobId);
    await paused.isReadyToWrite();
    await nameAgain(inside, tenant, job);
    const seen = await paused.passOn(look);
    const { claims, verdicts, status } = await workOff(tenant, job, { withinMs: slackMs, signal });
    return {
      ...{ lock: "job", ttlMs, ...seen },
      end: {
        expected: "succeeded, step_allowed, given to a worker once",
        seen: `${status}, ${verdicts.join(", ")}, given to a worker ${claims === 1 ? "once" : `${claims} times`}`,
      },
    };
  } finally {
    paused.stop();
    unanswer();
  }
}

type Seen = Pick<StaleWriter, "passedMs" | "fences" | "renewal" | "write" | "before" | "after">;

type PausedOwner = {
  /** Resolves when the first owner has its write ready and stands still. */
  isReadyToWrite(): Promise<void>;
  /** Waits for the second owner, wakes the first one, looks at what its write changed, and lets the second one write. */
  passOn(look: () => Promise<string>): Promise<Seen>;
  stop(): void;
};

/** Nothing of the first owner reaches the store until it is woken; then its renewal comes first, as by a timer that is due. */
function pauseFirstOwner(
  { signal }: Stage,
  { inside, ttlMs }: Terms,
  lock: Parameters<typeof watchOwners>[1],
): PausedOwner {
  const woken = new AbortController();
  const looked = new AbortController();
  const within = { withinMs: ttlMs + slackMs, signal };
  const watched = watchOwners(inside, lock, async ({ owner, step }) => {
    if (owner === 0) {
      await runtime.sleep(foreverMs, woken.signal);
      if (step === "write") await waitUntil("the renewal is answered", () => isAnswered("renew"), within);
    } else if (step === "write") await runtime.sleep(foreverMs, looked.signal);
    return "pass";
  });
  const isAnswered = (step: OwnerCall["step"]) => answerOf(watched, step) !== undefined;
  const hasCalled = (step: OwnerCall["step"]) =>
    watched.calls.some((call) => call.owner === 0 && call.step === step);
  return {
    isReadyToWrite: () =>
      waitUntil("the first owner writes and renews", () => hasCalled("write") && hasCalled("renew"), within),
    async passOn(look) {
      await waitUntil("a second owner", () => watched.owners.length > 1, within);
      const before = await look();
      woken.abort();
      await waitUntil("the first owner's write is answered", () => isAnswered("write"), within);
      const after = await look();
      looked.abort();
      const [a, b] = watched.owners as [LockOwners["owners"][0], LockOwners["owners"][0]];
      return {
        passedMs: b.grantedMs - a.sentMs,
        fences: { a: a.fence, b: b.fence },
        renewal: answerOf(watched, "renew") ?? "",
        write: answerOf(watched, "write") ?? "",
        before,
        after,
      };
    },
    stop() {
      woken.abort();
      looked.abort();
      watched.stop();
    },
  };
}

const foreverMs = 3_600_000;

/** What the store said to the first owner. */
function answerOf({ calls }: LockOwners, step: OwnerCall["step"]): string | undefined {
  return calls.find((call) => call.owner === 0 && call.step === step)?.answered?.kind;
}

const call = { deadlineMs: 5_000 };

/** As the store has it. */
async function lookAtRun({ plane }: Inside, { id }: DrillTenant, runId: string): Promise<string> {
  const request = { tenant: id as TenantId, runId: runId as RunId, records: [] };
  const answer = await plane.ports.store.loadRun(request, call);
  if (answer.kind !== "run") throw new Error(`the run could not be read: ${answer.kind}`);
  return `${answer.header.status}, version ${answer.header.version}`;
}

async function lookAtJob({ plane }: Inside, { id }: DrillTenant, jobId: string): Promise<string> {
  const answer = await plane.ports.store.getJob({ tenant: id as TenantId, jobId: jobId as JobId }, call);
  if (answer.kind !== "job") throw new Error(`the job could not be read: ${answer.kind}`);
  const { state, checked } = answer.job;
  return `${state}, ${checked === undefined ? "no verdict" : checked.verdict}`;
}

export function judgeStaleWriter(seen: StaleWriter): readonly Check[] {
  const { lock, ttlMs, passedMs, fences, renewal, write, before, after, end } = seen;
  return [
    check(
      `${lock} lock: B gets it when A's time is over, not before, with a higher fence`,
      `after ${ttlMs} ms, above ${fences.a}`,
      `after ${Math.round(passedMs)} ms, ${fences.b}`,
      passedMs >= ttlMs && fences.b > fences.a,
    ),
    check(`${lock} lock: A renews when it comes back`, "not_owned", renewal, renewal === "not_owned"),
    check(
      `${lock} lock: A ${lock === "run" ? "commits" : "delivers the verdict deny"}`,
      "stale_fence",
      write,
      write === "stale_fence",
    ),
    check(`${lock} lock: what A's write has changed`, `nothing: ${before}`, after, after === before),
    check(`${lock} lock: B finishes`, end.expected, end.seen, end.seen === end.expected),
  ];
}

export function staleWritersTable(seen: readonly StaleWriter[]): Table {
  return {
    title: "owners inside the control plane",
    columns: ["lock", "ttl ms", "B granted after ms", "A renews", "A writes", "before A's write", "after it"],
    rows: seen.map(({ lock, ttlMs, passedMs, renewal, write, before, after }) => [
      ...[lock, ttlMs, Math.round(passedMs), renewal, write, before, after],
    ]),
  };
}
