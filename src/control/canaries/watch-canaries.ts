// What every process does for canaries: tells the others what it has measured, hears what they have, and, as an engine, judges.
import { type Canary, isOver, judgeCanary, windowsThrough } from "../../domain/canary.ts";
import { noSamplesAtAll } from "../../domain/canary-guard.ts";
import type { Consumer } from "../../ports/bus.ts";
import type { Engine, SettingsEngine } from "../engine/engine.ts";
import { recordOf } from "../policies/policies.ts";
import { readRecord } from "../tenants/tenants.ts";
import {
  advanceCanary,
  decideCanary,
  type KeptCanary,
  noteEnd,
  readCanaries,
  saveCanary,
} from "./advance-canary.ts";
import { amountOf } from "./collected-samples.ts";
import type { CanaryNews } from "./samples.ts";

/** How soon an unannounced canary is found, and a half-finished one is finished. */
const lookEveryMs = 5_000;
/** While there is one. */
const judgeEveryMs = 1_000;
/** Bounds announcements, so that everything else gets its turn. */
const atLeastMs = 10;
/** Samples of other processes may be this late. */
const graceMs = 1_000;
/** A process that knows a canary only from a checkpoint lets those decide that have seen all of it. */
const lateGraceMs = 15_000;
/** A start that was not finished by then has lost its process. */
const startingMs = 10_000;
const checkpointEveryMs = 3_600_000;

/** In records and rows, for what no person did. */
const judge = "canary";

export function watchCanaries(engine: SettingsEngine, { judges }: { readonly judges: boolean }): Consumer {
  const { bus, samples, collected, storeTime } = engine;
  const { clock, log } = engine.ports;
  const stopped = new AbortController();
  let waking = new AbortController();
  let hasNews = judges;
  const wake = () => waking.abort();
  const changed = () => {
    hasNews = judges;
    wake();
  };
  const forgetOpened = samples.onOpened(wake);
  const forgetChanged = collected.onChanged(changed);
  const listening = bus.listen("canaries", (body) => {
    const news = JSON.parse(body) as CanaryNews;
    if (news.samples !== undefined) collected.add(news.samples);
    if (news.changed === true) changed();
  });
  let beganMs: number | undefined;
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  let running = 0;

  async function work(): Promise<void> {
    tellEnded(engine, storeTime.nowMs());
    const everyMs = running > 0 ? judgeEveryMs : lookEveryMs;
    if (!judges || (!hasNews && clock.monotonicMs() - lookedAtMs < everyMs)) return;
    hasNews = false;
    lookedAtMs = clock.monotonicMs();
    const listed = await readCanaries(engine);
    if (listed.kind !== "listed") return;
    // The store's time is known by its first answer.
    beganMs ??= storeTime.nowMs();
    running = await lookAtAll(engine, listed.canaries, beganMs);
  }

  function pauseMs(): number {
    const untilLookMs = (running > 0 ? judgeEveryMs : lookEveryMs) - (clock.monotonicMs() - lookedAtMs);
    const endMs = samples.nextEndMs();
    const untilEndMs = endMs === undefined ? Number.POSITIVE_INFINITY : endMs - storeTime.nowMs();
    return Math.max(atLeastMs, Math.min(judges ? untilLookMs : lookEveryMs, untilEndMs));
  }

  const watching = (async () => {
    while (!stopped.signal.aborted) {
      waking = new AbortController();
      await work().catch((error: unknown) => {
        log.error("canaries could not be looked at", { cause: String(error) });
      });
      if (stopped.signal.aborted) break;
      await (hasNews ? clock.sleep(atLeastMs) : clock.sleep(pauseMs(), waking.signal));
    }
    tellEnded(engine, Number.POSITIVE_INFINITY);
  })();
  return {
    async stop() {
      stopped.abort();
      wake();
      forgetOpened();
      forgetChanged();
      await listening.stop();
      await watching;
    },
  };
}

/** Its own samples count once here, and once in every other process that hears of them. */
function tellEnded({ samples, collected, bus }: Engine<never>, nowMs: number): void {
  for (const ended of samples.takeEnded(nowMs)) {
    collected.add(ended);
    bus.announce("canaries", JSON.stringify({ samples: ended } satisfies CanaryNews));
  }
}

/** Gives how many run. */
async function lookAtAll(
  engine: SettingsEngine,
  canaries: readonly KeptCanary[],
  beganMs: number,
): Promise<number> {
  let running = 0;
  for (const kept of canaries) {
    const { canary } = kept;
    const { id, state, startedAtMs } = canary;
    const isForgotten = state === "starting" && engine.storeTime.nowMs() - startedAtMs > startingMs;
    if (isForgotten || state === "rolling_back" || state === "keeping")
      await advanceCanary(engine, id, judge);
    if (state === "running") {
      running += 1;
      await judgeOne(engine, kept, beganMs);
    }
    if (isOver(canary)) engine.collected.forget(id);
  }
  engine.ports.metrics.set("canaries_running", {}, running);
  return running;
}

async function judgeOne(engine: SettingsEngine, kept: KeptCanary, beganMs: number): Promise<void> {
  const { canary } = kept;
  const { collected, storeTime } = engine;
  collected.learn(canary);
  if (await hasLostRollout(engine, canary)) return stop(engine, kept);
  const nowMs = storeTime.nowMs();
  const { totals, windows } = collected.of(canary.id);
  const { startedAtMs, windowMs } = canary;
  const through = windowsThrough(canary, nowMs, graceMs);
  const book = { totals, windows: windows.filter(({ window }) => window <= through) };
  const isLate = beganMs > startedAtMs + windowMs;
  // The last window may end after the canary does.
  const endGraceMs = Math.min(windowMs, 60_000) + graceMs + (isLate ? lateGraceMs : 0);
  const verdict = judgeCanary(canary, book, nowMs, endGraceMs);
  if (verdict.kind === "go_on") return checkpoint(engine, kept, nowMs);
  const { kind, reason } = verdict;
  const state = kind === "keep" ? "keeping" : "rolling_back";
  const ending = kind === "inconclusive" ? { endsAs: kind } : {};
  await decideCanary(engine, canary.id, { state, reason, actor: judge, ...ending });
}

/** Somebody has removed or replaced it: what is measured now says nothing about it. */
async function hasLostRollout(engine: SettingsEngine, { id, tenant }: Canary): Promise<boolean> {
  const scope = recordOf(tenant);
  if (engine.tenants.recall(scope)?.rollout?.id === id) return false;
  const record = await readRecord(engine, scope);
  if (record.kind !== "tenant") return false;
  engine.tenants.learn(scope, record.record.settings);
  return record.record.settings.rollout?.id !== id;
}

async function stop(engine: SettingsEngine, { canary, revision }: KeptCanary): Promise<void> {
  const reason = "its rollout was removed or replaced by hand";
  const stopped: Canary = { ...canary, state: "stopped", reason, endedAtMs: engine.storeTime.nowMs() };
  const saved = await saveCanary(engine, { canary: stopped, revision }, judge);
  if (saved.kind === "saved") noteEnd(engine, stopped);
}

/** At most once an hour, since each is a row of the audit trail; by a process that knows more than the last one did. */
async function checkpoint(
  engine: SettingsEngine,
  { canary, revision }: KeptCanary,
  nowMs: number,
): Promise<void> {
  if (nowMs - (canary.totals?.atMs ?? canary.startedAtMs) < checkpointEveryMs) return;
  // Windows of which all samples have come: a process that goes on from here knows which ones to add.
  const through = windowsThrough(canary, nowMs, graceMs);
  const arms = engine.collected.upTo(canary.id, through);
  if (amountOf(arms) <= amountOf(canary.totals?.arms ?? noSamplesAtAll)) return;
  const next = { ...canary, totals: { atMs: nowMs, through, arms } };
  await saveCanary(engine, { canary: next, revision }, judge);
}
