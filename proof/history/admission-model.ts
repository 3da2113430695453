// The sequential specification of admission for one tenant: keys, runs that live or have ended, and the limit.
import type { Candidate, Model } from "./linearize.ts";
import { scatter } from "./scatter.ts";
import { emptyVector, type StatusVector, statusAt, withStatus } from "./status-vector.ts";

/** `run` is the number of a run that has a name; `print` tells the fingerprints of one key apart, from 1 on. */
export type AdmissionOperation =
  | { readonly kind: "start"; readonly run: number | undefined; readonly print: number }
  | { readonly kind: "end"; readonly run: number }
  | { readonly kind: "look"; readonly run: number }
  | { readonly kind: "set_limit"; readonly limit: number };

export type AdmissionAnswer =
  | "created"
  | "replayed"
  | "limit_reached"
  | "key_reused"
  | "lives"
  | "ended"
  | "exists"
  | "absent"
  | "done"
  /** Named a run that cannot be meant. */
  | "impossible";

type AdmissionState = {
  readonly limit: number;
  readonly active: number;
  /** Runs that nobody was told of, and nobody can end. */
  readonly nameless: number;
  /** By run: 0 while it is not there, then twice its print, and one more when it has ended. */
  readonly statuses: StatusVector;
  /** Of all statuses: equal ones have equal sums. */
  readonly high: number;
  readonly low: number;
};

export type AdmissionOptions = {
  readonly limit: number;
  readonly runs: number;
  /** Runs that exist, and that only a start without a key and an answer can have made. */
  readonly unclaimed: readonly number[];
};

type AdmissionModel = Model<AdmissionState, AdmissionOperation, AdmissionAnswer>;

export function createAdmissionModel({ limit, runs, unclaimed }: AdmissionOptions): AdmissionModel {
  return {
    initial: { limit, active: 0, nameless: 0, statuses: emptyVector(runs), high: 0, low: 0 },
    step(state, operation, answer) {
      if (answer === "impossible") return [];
      switch (operation.kind) {
        case "start":
          return start(state, operation, answer, unclaimed);
        case "end":
          return end(state, operation.run, answer);
        case "look":
          return look(state, operation.run, answer) ? [state] : [];
        case "set_limit":
          return [state.limit === operation.limit ? state : { ...state, limit: operation.limit }];
      }
    },
    hash: (state) => `${state.limit} ${state.nameless} ${state.high},${state.low}`,
    isReading: ({ kind }, answer) => kind === "look" || (kind === "start" && answer !== "created"),
    effectOf(operation) {
      switch (operation.kind) {
        case "start":
          return operation.run === undefined ? "start" : `start ${operation.run} ${operation.print}`;
        case "set_limit":
          return `limit ${operation.limit}`;
        case "end":
        case "look":
          return `${operation.kind} ${operation.run}`;
      }
    },
    mattersTo: (state, unanswered, candidate) => mattersTo(state, unanswered, candidate, unclaimed),
  };
}

const absent = 0;
const livingOf = (print: number) => print * 2;
const isLiving = (status: number) => status !== absent && status % 2 === 0;

function changed(state: AdmissionState, run: number, status: number): AdmissionState {
  const before = statusAt(state.statuses, run);
  return {
    ...state,
    active: state.active - Number(isLiving(before)) + Number(isLiving(status)),
    statuses: withStatus(state.statuses, run, status),
    high: state.high ^ scatter(run * 2, before) ^ scatter(run * 2, status),
    low: state.low ^ scatter(run * 2 + 1, before) ^ scatter(run * 2 + 1, status),
  };
}

function start(
  state: AdmissionState,
  { run, print }: Extract<AdmissionOperation, { readonly kind: "start" }>,
  answer: AdmissionAnswer | undefined,
  unclaimed: readonly number[],
): readonly AdmissionState[] {
  const isFull = state.active >= state.limit;
  if (run === undefined) {
    if (answer !== undefined) return answer === "limit_reached" && isFull ? [state] : [];
    if (isFull) return [state];
    const made = unclaimed.filter((each) => statusAt(state.statuses, each) === absent);
    const nameless = { ...state, active: state.active + 1, nameless: state.nameless + 1 };
    return [...made.map((each) => changed(state, each, livingOf(print))), nameless];
  }
  const status = statusAt(state.statuses, run);
  const canCreate = status === absent && !isFull;
  switch (answer) {
    case undefined:
      return [canCreate ? changed(state, run, livingOf(print)) : state];
    case "created":
      return canCreate ? [changed(state, run, livingOf(print))] : [];
    case "replayed":
      return status !== absent && status >> 1 === print ? [state] : [];
    case "key_reused":
      return status !== absent && status >> 1 !== print ? [state] : [];
    case "limit_reached":
      return status === absent && isFull ? [state] : [];
    case "lives":
    case "ended":
    case "exists":
    case "absent":
    case "done":
    case "impossible":
      return [];
  }
}

function end(
  state: AdmissionState,
  run: number,
  answer: AdmissionAnswer | undefined,
): readonly AdmissionState[] {
  const status = statusAt(state.statuses, run);
  if (isLiving(status)) return [changed(state, run, status + 1)];
  return answer === undefined || status !== absent ? [state] : [];
}

function look(state: AdmissionState, run: number, answer: AdmissionAnswer | undefined): boolean {
  const status = statusAt(state.statuses, run);
  switch (answer) {
    case "lives":
      return isLiving(status);
    case "ended":
      return status !== absent && !isLiving(status);
    case "exists":
      return status !== absent;
    case "absent":
      return status === absent;
    case undefined:
      return true;
    case "created":
    case "replayed":
    case "limit_reached":
    case "key_reused":
    case "done":
    case "impossible":
      return false;
  }
}

/**
 * Ends and raised limits make room, which every run that must be created needs. A start is needed by those who name its run, and by a
 * refusal that says that all is full. It also may have to come before the last place is taken or the limit falls: afterwards
 * there is no room for it.
 */
function mattersTo(
  state: AdmissionState,
  unanswered: AdmissionOperation,
  { operation, answer, isPossible }: Candidate<AdmissionOperation, AdmissionAnswer>,
  unclaimed: readonly number[],
): boolean {
  if (operation.kind === "set_limit") return operation.limit < state.limit;
  if (isPossible) {
    return answer === "created" && unanswered.kind === "start" && state.active + 1 >= state.limit;
  }
  if (answer === "limit_reached") {
    return unanswered.kind === "start" || unanswered.kind === "set_limit";
  }
  const isMissing = operation.run !== undefined && statusAt(state.statuses, operation.run) === absent;
  switch (unanswered.kind) {
    case "start":
      if (unanswered.run === undefined)
        return operation.run !== undefined && unclaimed.includes(operation.run);
      return unanswered.run === operation.run;
    case "end":
      return unanswered.run === operation.run || (isMissing && state.active >= state.limit);
    case "set_limit":
      return isMissing && unanswered.limit > state.limit;
    case "look":
      return false;
  }
}
