// The steady load of a soak: starts with keys, results, approvals, locks, streams and keys that come and go, on two tenants.
import { randomBytes } from "node:crypto";
import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient, JobFailed, type Worker, worker } from "../src/sdk/index.ts";
import { every, type Lane } from "./lane.ts";
import { useLocks } from "./lock-lanes.ts";
import { attempt, noteFailure, noteMade, type Tally } from "./tally.ts";
import { doomedTopic, type WorkflowName, workflows, workTopic } from "./workflows.ts";

export type Load = {
  /** Starts nothing more, waits until every run has ended, and then ends everything else. */
  finish(): Promise<void>;
};

export type LoadOptions = {
  readonly url: string;
  readonly platformKey: string;
  readonly tally: Tally;
  /** Starts per second, of all tenants. */
  readonly rate: number;
  readonly windowSeconds: number;
};

const tenantNames = ["soak-1", "soak-2"] as const;

export async function startLoad(options: LoadOptions): Promise<Load> {
  const { url, platformKey, tally, rate } = options;
  const platform = createClient({ url, apiKey: platformKey });
  const starting = new AbortController();
  const caring = new AbortController();
  // Every lane and every start under way listens to its end.
  setMaxListeners(0, starting.signal, caring.signal);
  const crews = await Promise.all(tenantNames.map((id) => hire(platform, { id, url, tally })));
  const lanes = crews.flatMap(({ admin }, index) => {
    const lane = { tally, admin, signal: starting.signal };
    const care = { ...lane, signal: caring.signal };
    return [
      startRuns(lane, { everyMs: (tenantNames.length * 1_000) / rate, name: `t${index + 1}`, ...options }),
      every(300, care, decideApprovals),
      every(1_000, lane, retryLetter),
      every(500, lane, passKey),
      every(100, lane, followEvents),
      ...useLocks(lane),
    ];
  });
  const all = Promise.all(lanes);
  // Told by `finish`, and not as a rejection that nobody handles meanwhile.
  all.catch(() => undefined);
  return {
    async finish() {
      starting.abort();
      await untilIdle(platform, tally);
      caring.abort();
      await all;
      await Promise.all(crews.flatMap(({ workers }) => workers.map((each) => each.stop())));
    },
  };
}

type Crew = { readonly admin: Client; readonly workers: readonly Worker[] };

async function hire(
  platform: Client,
  { id, url, tally }: { readonly id: string; readonly url: string; readonly tally: Tally },
): Promise<Crew> {
  await platform.tenants.create({ id, max_concurrent_runs: 100_000 });
  const keyOf = async (role: "admin" | "worker") =>
    (await platform.keys.create({ tenant: id, role, name: role })).key;
  const admin = createClient({ url, apiKey: await keyOf("admin") });
  for (const definition of Object.values(workflows)) await admin.workflows.save(definition);
  const apiKey = await keyOf("worker");
  const onTrouble = (trouble: { readonly kind: string }) => {
    if (!expectedTroubles.has(trouble.kind))
      noteFailure(tally, `worker: ${trouble.kind}`, JSON.stringify(trouble));
  };
  const succeed = () => {
    tally.operations += 1;
    return { done: true, note: "n".repeat(200) };
  };
  const fail = () => {
    tally.operations += 1;
    throw new JobFailed("as intended", { retryable: true, code: "intended" });
  };
  const topics = { [workTopic]: succeed, [doomedTopic]: fail };
  return {
    admin,
    workers: [1, 2].map((number) =>
      worker({
        url,
        apiKey,
        name: `${id}-worker-${number}`,
        topics,
        concurrency: 8,
        pollWaitMs: 5_000,
        onTrouble,
      }),
    ),
  };
}

/**
 * A job of a run that was cancelled meanwhile has nobody who waits for it; some fail as intended; and a worker that finds the
 * server late asks again by itself: what is lost by that shows in its run.
 */
const expectedTroubles: ReadonlySet<string> = new Set([
  "claim_lost",
  "result_refused",
  "handler_failed",
  "server_unreachable",
]);

type Starter = { readonly everyMs: number; readonly name: string; readonly windowSeconds: number };

/** On time, whether the earlier ones were answered or not: a slow server does not make its own load lighter. */
async function startRuns(lane: Lane, starter: Starter): Promise<void> {
  const underWay = new Set<Promise<void>>();
  const beganMs = performance.now();
  for (let turn = 0; !lane.signal.aborted; turn += 1) {
    const one = startOne(lane, starter, turn).finally(() => underWay.delete(one));
    underWay.add(one);
    const restMs = beganMs + (turn + 1) * starter.everyMs - performance.now();
    await sleep(Math.max(0, restMs), undefined, { signal: lane.signal }).catch(() => undefined);
  }
  await Promise.all(underWay);
}

/** The places of twenty starts that are not plain. */
const mix: Readonly<Record<number, WorkflowName>> = { 0: "approved", 5: "doomed", 10: "chain", 15: "parent" };

const input = { report: "sales", week: "2026-W46", recipients: ["anna@example.com", "ben@example.com"] };

async function startOne(lane: Lane, { name, windowSeconds }: Starter, turn: number): Promise<void> {
  const { tally, admin } = lane;
  const workflow = mix[turn % 20] ?? "plain";
  const idempotencyKey = `${name}-${turn}`;
  const sentMs = performance.now();
  const send = () => admin.runs.start(workflow, { ...input, order: turn }, { idempotencyKey });
  const started = await attempt(tally, "start", send);
  if (started === undefined) return;
  tally.startMs.push(performance.now() - sentMs);
  tally.starts += 1;
  noteMade(tally, "ended runs");
  noteMade(tally, "idempotency keys");
  if (workflow === "parent") noteMade(tally, "ended runs");
  if (workflow === "approved") noteMade(tally, "approvals");
  if (workflow === "doomed") noteMade(tally, "dead letters");
  const runId = started.run_id;
  if (turn % 10 === 3) {
    const again = await attempt(tally, "start again", send);
    if (again !== undefined && (again.run_id !== runId || !again.replayed))
      noteFailure(tally, "start again: another run", `${idempotencyKey} gave ${runId}, then ${again.run_id}`);
  }
  if (turn % 20 === 7) await attempt(tally, "cancel", () => admin.runs.cancel(runId), ["run_ended"]);
  if (turn % 4 === 1 && workflow === "plain") await waitForEnd(lane, { runId, sentMs });
  if (workflow === "chain" && turn % 40 === 10) await lookAtTimeline(lane, runId);
  if (turn % 50 === 1) await lookAgain(lane, { runId, sentMs, windowSeconds });
}

/** Longer than a run takes whose worker was lost twice: a poll's answer that is late by a timeout costs a lease of 30 s. */
const runMsMax = 90_000;

async function waitForEnd({ tally, admin }: Lane, run: { runId: string; sentMs: number }): Promise<void> {
  const wait = () => admin.runs.wait(run.runId, { timeoutMs: runMsMax });
  const ended = await attempt(tally, "wait for the end", wait);
  if (ended === undefined) return;
  tally.runMs.push(performance.now() - run.sentMs);
  if (ended.status !== "succeeded") noteFailure(tally, `run ended as ${ended.status}`, run.runId);
}

/** A chain has more versions than its timeline keeps rows. */
async function lookAtTimeline({ tally, admin }: Lane, runId: string): Promise<void> {
  await attempt(tally, "wait for the end", () => admin.runs.wait(runId, { timeoutMs: runMsMax }));
  const rows = await attempt(tally, "read a timeline", () => admin.runs.timeline(runId).take(100));
  const [first] = rows ?? [];
  if (first !== undefined && first.version > 1) tally.trimmedTimelines += 1;
}

/** What was started half a window ago is still there; unless the answer is so late that the whole window is over. */
async function lookAgain(
  { tally, admin, signal }: Lane,
  { runId, sentMs, windowSeconds }: { runId: string; sentMs: number; windowSeconds: number },
): Promise<void> {
  await sleep(windowSeconds * 500, undefined, { signal }).catch(() => undefined);
  if (signal.aborted) return;
  const found = await attempt(tally, "read what is kept", () => admin.runs.get(runId), ["run_not_found"]);
  if (found === undefined && performance.now() - sentMs < windowSeconds * 1_000)
    noteFailure(tally, "a run was removed before its time", runId);
}

async function decideApprovals({ tally, admin }: Lane, turn: number): Promise<void> {
  const list = () => admin.approvals.list({ state: "pending", limit: 50 }).take(50);
  const pending = (await attempt(tally, "list approvals", list)) ?? [];
  const verdict = turn % 5 === 0 ? admin.approvals.reject : admin.approvals.approve;
  await Promise.all(pending.map(({ job_id }) => attempt(tally, "decide", () => verdict(job_id))));
}

/** Of the two attempts that a doomed step has by itself. */
const firstLetterAttempt = 2;

/** The step fails again, and another letter is written. Once a run: one that is retried for ever is kept for ever, and grows. */
async function retryLetter({ tally, admin }: Lane): Promise<void> {
  const list = () => admin.deadLetters.list({ state: "open", limit: 100 }).take(100);
  const letters = (await attempt(tally, "list dead letters", list)) ?? [];
  const letter = letters.find((each) => each.attempt === firstLetterAttempt);
  if (letter === undefined) return;
  const retry = () => admin.deadLetters.retry(letter.id);
  const expected = ["dead_letter_not_found", "dead_letter_not_retryable"];
  const retried = await attempt(tally, "retry a dead letter", retry, expected);
  if (retried !== undefined) noteMade(tally, "dead letters");
}

/** A key for one question. */
async function passKey({ tally, admin }: Lane): Promise<void> {
  const made = await attempt(tally, "create a key", () =>
    admin.keys.create({ role: "viewer", name: `visitor-${randomBytes(4).toString("hex")}` }),
  );
  if (made === undefined) return;
  // Asked again when the first answer was late, it finds the key gone.
  await attempt(tally, "revoke a key", () => admin.keys.revoke(made.id), ["api_key_not_found"]);
  noteMade(tally, "revoked keys");
}

const streamMs = 2_000;

async function followEvents(lane: Lane): Promise<void> {
  const over = AbortSignal.any([lane.signal, AbortSignal.timeout(streamMs)]);
  await attempt(lane.tally, "follow events", async () => {
    try {
      for await (const event of lane.admin.events.follow({ signal: over })) {
        if (event.kind === "reset") throw new Error(`the stream lost rows: ${event.reason}`);
      }
    } catch (error) {
      if (!over.aborted) throw error;
    }
  });
}

/** Longer than any run takes that nobody has lost. */
const idleWithinMs = 120_000;

async function untilIdle(platform: Client, tally: Tally): Promise<void> {
  const endMs = performance.now() + idleWithinMs;
  for (;;) {
    const tenants = await Promise.all(tenantNames.map((id) => platform.tenants.get(id)));
    const active = tenants.reduce((sum, { active_runs: count }) => sum + count, 0);
    if (active === 0) return;
    if (performance.now() > endMs) {
      noteFailure(tally, "runs that did not end", `${active} runs, ${idleWithinMs} ms after the last start`);
      return;
    }
    await sleep(100);
  }
}
