// Samples of the canaries' two sides as this process takes them, by window, and how it tells the others.

import { type ArmSamples, type BothArms, bucketOf, noSamples } from "../../domain/canary-guard.ts";
import type { AssignedPolicies, RolloutArm } from "../../domain/policy.ts";
import type { Metrics } from "../../ports/ports.ts";
import type { SettingsEngine } from "../engine/engine.ts";

/** What a result tells of itself. */
type ResultNotes = {
  /** Once for each result, whatever comes of it. */
  arrived(): void;
  foundBusy(tries: number): void;
  durable(measured: {
    readonly latencyMs: number;
    readonly lockWaitMs: number;
    readonly busyTries: number;
  }): void;
};

/** What a start tells of itself. */
export type StartNotes = {
  foundBusy(): void;
  decided(measured: { readonly waitMs: number; readonly isUnavailable: boolean }): void;
};

export type WindowSamples = {
  readonly canary: string;
  readonly window: number;
  readonly arms: BothArms;
};

export type CanarySamples = {
  /** Undefined for a run that no canary counts: then nothing is noted. */
  ofResult(arm: AssignedPolicies["arm"], result: { readonly ageMs: number }): ResultNotes | undefined;
  ofStart(arm: AssignedPolicies["arm"]): StartNotes | undefined;
  /** Gives the windows that are over, and forgets them. */
  takeEnded(nowMs: number): readonly WindowSamples[];
  /** When the first window that holds anything is over. */
  nextEndMs(): number | undefined;
  /** Calls when a window is opened; the answer ends that. */
  onOpened(listener: () => void): () => void;
};

type Open = {
  readonly canary: string;
  readonly window: number;
  readonly endsAtMs: number;
  readonly canaryArm: Draft;
  readonly controlArm: Draft;
};

type Counts = Record<string, number>;
type Draft = {
  -readonly [Name in keyof ArmSamples]: ArmSamples[Name] extends number ? number : unknown;
} & {
  acquired: [number, number, number];
  lockWait: Counts;
  latency: Counts;
  startWait: Counts;
};

/** Beyond any number of canaries that run at once, one a tenant: bounds the memory when nobody takes the windows. */
const openMax = 1_000;

export function createCanarySamples(storeTime: { nowMs(): number }, metrics: Metrics): CanarySamples {
  const open = new Map<string, Open>();
  const listeners = new Set<() => void>();

  function draftOf({ rollout, arm }: NonNullable<AssignedPolicies["arm"]>): Draft | undefined {
    if (rollout.canary === undefined) return undefined;
    const { startedAtMs, windowMs } = rollout.canary;
    const window = Math.max(0, Math.floor((storeTime.nowMs() - startedAtMs) / windowMs));
    const key = `${rollout.id} ${window}`;
    const found = open.get(key) ?? {
      canary: rollout.id,
      window,
      endsAtMs: startedAtMs + (window + 1) * windowMs,
      canaryArm: emptyDraft(),
      controlArm: emptyDraft(),
    };
    if (!open.has(key)) {
      if (open.size >= openMax) return undefined;
      open.set(key, found);
      for (const listener of listeners) listener();
    }
    return arm === "canary" ? found.canaryArm : found.controlArm;
  }

  /** A result or a start may outlast its window: each note goes to the window in which it is made. */
  function noting(of: AssignedPolicies["arm"]) {
    if (of?.rollout.canary === undefined) return undefined;
    return (change: (draft: Draft) => void) => {
      const draft = draftOf(of);
      if (draft !== undefined) change(draft);
    };
  }

  return {
    ofResult(of, { ageMs }) {
      const startedAtMs = of?.rollout.canary?.startedAtMs ?? Number.POSITIVE_INFINITY;
      // What it has met so far it has met under other policies, perhaps those of another canary.
      const isOlder = storeTime.nowMs() - ageMs < startedAtMs;
      const note = isOlder ? undefined : noting(of);
      return note === undefined ? undefined : resultNotes(note, metrics, of?.arm ?? "control");
    },
    ofStart(of) {
      const note = noting(of);
      return note === undefined ? undefined : startNotes(note, metrics, of?.arm ?? "control");
    },
    takeEnded(nowMs) {
      const ended = [...open].filter(([, { endsAtMs }]) => endsAtMs <= nowMs);
      for (const [key] of ended) open.delete(key);
      return ended.map(([, { canary, window, canaryArm, controlArm }]) => ({
        canary,
        window,
        arms: { canary: canaryArm, control: controlArm },
      }));
    },
    nextEndMs() {
      const ends = [...open.values()].map(({ endsAtMs }) => endsAtMs);
      return ends.length === 0 ? undefined : Math.min(...ends);
    },
    onOpened(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

type Note = (change: (draft: Draft) => void) => void;

function resultNotes(note: Note, metrics: Metrics, arm: RolloutArm): ResultNotes {
  return {
    arrived() {
      metrics.count("canary_samples_total", { arm, kind: "result" });
      note((draft) => {
        draft.results += 1;
      });
    },
    foundBusy: (tries) =>
      note((draft) => {
        draft.busyRetries += tries;
      }),
    durable: ({ latencyMs, lockWaitMs, busyTries }) =>
      note((draft) => {
        draft.acquired[busyTries === 0 ? 0 : busyTries === 1 ? 1 : 2] += 1;
        add(draft.latency, latencyMs);
        add(draft.lockWait, lockWaitMs);
      }),
  };
}

function startNotes(note: Note, metrics: Metrics, arm: RolloutArm): StartNotes {
  return {
    foundBusy: () =>
      note((draft) => {
        draft.startBusyRetries += 1;
      }),
    decided({ waitMs, isUnavailable }) {
      metrics.count("canary_samples_total", { arm, kind: "start" });
      note((draft) => {
        draft.starts += 1;
        if (isUnavailable) draft.startsUnavailable += 1;
        add(draft.startWait, waitMs);
      });
    },
  };
}

function add(counts: Counts, durationMs: number): void {
  const bucket = bucketOf(durationMs);
  counts[bucket] = (counts[bucket] ?? 0) + 1;
}

function emptyDraft(): Draft {
  return { ...noSamples, acquired: [0, 0, 0], lockWait: {}, latency: {}, startWait: {} };
}

/** What processes tell each other: samples of a window that is over, or that a canary was started or ended. */
export type CanaryNews = { readonly samples?: WindowSamples; readonly changed?: true };

export function tellChanged({ collected, bus }: Pick<SettingsEngine, "collected" | "bus">): void {
  collected.changed();
  bus.announce("canaries", JSON.stringify({ changed: true } satisfies CanaryNews));
}
