// The fields that steps of any type may have: edges, paths, waits, retries, and who may take the job.
import { parseTime } from "../engine/rfc3339.ts";
import type { RetryPolicy, StepType } from "./compiled.ts";
import {
  fieldOf,
  flagField,
  labelsField,
  listField,
  numberField,
  objectField,
  type Reading,
  refuseUnknown,
  report,
  reportItem,
  secondsField,
  textField,
  textsField,
} from "./fields.ts";

export const idRule = {
  charactersMax: 64,
  pattern: /^[A-Za-z0-9][A-Za-z0-9._-]*$/,
  meaning: "letters, digits, dots, dashes and underscores, starting with a letter or digit",
};

/** Long enough for an expression of 4,096 bytes with its braces. */
export const expressionRule = { charactersMax: 4_200 };

/** Seven days. */
export const timeoutSecondsMax = 604_800;

/** A year: a delay may well outlast a timeout, but not the people who wrote it. */
const delaySecondsMax = 31_536_000;

/** What is not a text stays in its place as an empty one, so that places are counted as they were written. */
export function stepIdsField(reading: Reading, name: string): string[] {
  const ids = (listField(reading, name) ?? []).map((item) => (typeof item === "string" ? item : ""));
  const seen = new Set<string>();
  for (const [index, id] of ids.entries()) {
    if (id === "") reportItem(reading, name, index, "must be the id of a step");
    else if (seen.has(id)) reportItem(reading, name, index, `"${id}" is named twice`);
    seen.add(id);
  }
  return ids;
}

/** Dotted, with or without `ctx.` before it: the value is read as `ctx.<path>`. */
export function contextPathField(reading: Reading, name: string): readonly string[] | undefined {
  const names = pathField(reading, name, /^ctx\./);
  if (names?.[0] !== "steps") return names;
  report(reading, name, "may not start with steps: the outputs of all steps are there already");
  return undefined;
}

const forbiddenNames = ["__proto__", "prototype", "constructor"];

/** At most 16 names joined by dots. */
export function pathField(reading: Reading, name: string, prefix?: RegExp): readonly string[] | undefined {
  const text = textField(reading, name, { charactersMax: 256 });
  if (text === undefined) return undefined;
  const names = (prefix === undefined ? text : text.replace(prefix, "")).split(".");
  const isFit = names.length <= 16 && names.every((part) => /^[A-Za-z_][A-Za-z0-9_-]*$/.test(part));
  if (isFit && !names.some((part) => forbiddenNames.includes(part))) return names;
  report(reading, name, "must be at most 16 names joined by dots, as review.result");
  return undefined;
}

export type DelayDefinition =
  | { readonly kind: "for"; readonly ms: number }
  | { readonly kind: "until"; readonly at: string };

export function readDelay(
  reading: Reading,
  type: StepType,
  timeoutMs: number | undefined,
): DelayDefinition | undefined {
  const ms = secondsField(reading, "delay_sec", delaySecondsMax);
  const at = textField(reading, "delay_until", expressionRule);
  if (type !== "delay") {
    if (ms !== undefined) report(reading, "delay_sec", "only delay steps wait; put one before this step");
    if (at !== undefined) report(reading, "delay_until", "only delay steps wait; put one before this step");
    return undefined;
  }
  if (at !== undefined) {
    if (ms !== undefined) report(reading, "delay_until", "a delay has either delay_sec or delay_until");
    if (!at.includes("${") && parseTime(at) === undefined) {
      report(reading, "delay_until", "must be a time as 2026-11-15T08:30:00Z, or a template that gives one");
    }
    if (timeoutMs !== undefined)
      report(reading, "timeout_sec", "a delay has no time limit besides its own end");
    return { kind: "until", at };
  }
  if (ms !== undefined && timeoutMs !== undefined && timeoutMs < ms) {
    report(reading, "timeout_sec", "is shorter than delay_sec: the step would always time out");
  }
  if (ms !== undefined) return { kind: "for", ms };
  if (fieldOf(reading, "delay_sec") === 0) return { kind: "for", ms: 0 };
  if (timeoutMs !== undefined) return { kind: "for", ms: timeoutMs };
  report(reading, "delay_sec", "a delay step needs delay_sec, delay_until or timeout_sec");
  return undefined;
}

const secondsDefault = { initial: 1, max: 60 };

/**
 * Zeros mean "not set", as existing definitions use them. A multiplier of 1 means a constant wait, which
 * cannot be said otherwise.
 */
export function readRetry(outer: Reading): RetryPolicy {
  const reading = objectField(outer, "retry");
  if (reading === undefined) {
    return {
      retriesMax: 0,
      initialMs: secondsDefault.initial * 1_000,
      maxMs: secondsDefault.max * 1_000,
      multiplier: 2,
    };
  }
  refuseUnknown(reading, ["max_retries", "initial_backoff_sec", "max_backoff_sec", "multiplier"]);
  const initialMs =
    secondsField(reading, "initial_backoff_sec", timeoutSecondsMax) ?? secondsDefault.initial * 1_000;
  const multiplier = numberField(reading, "multiplier", { min: 0, max: 100 }) ?? 0;
  if (multiplier > 0 && multiplier < 1)
    report(reading, "multiplier", "must be at least 1: waits do not get shorter");
  return {
    retriesMax: numberField(reading, "max_retries", { min: 0, max: 100, step: "whole" }) ?? 0,
    initialMs,
    maxMs:
      secondsField(reading, "max_backoff_sec", timeoutSecondsMax) ??
      Math.max(initialMs, secondsDefault.max * 1_000),
    multiplier: multiplier === 0 ? 2 : multiplier,
  };
}

const metaFields = [
  "actor_id",
  "actor_type",
  "idempotency_key",
  "pack_id",
  "capability",
  "risk_tags",
  "requires",
  "labels",
];

/** The capabilities a worker must offer; the rest of `meta` describes the step and changes nothing. */
export function readMeta(outer: Reading): readonly string[] {
  const reading = objectField(outer, "meta");
  if (reading === undefined) return [];
  refuseUnknown(reading, metaFields);
  const rule = { charactersMax: 256 };
  for (const name of ["actor_id", "actor_type", "idempotency_key", "pack_id"]) textField(reading, name, rule);
  textsField(reading, "risk_tags", rule);
  labelsField(reading, "labels");
  if ((listField(reading, "requires") ?? []).length > 100)
    report(reading, "requires", "has at most 100 items");
  const capability = textField(reading, "capability", rule);
  return [
    ...new Set([...(capability === undefined ? [] : [capability]), ...textsField(reading, "requires", rule)]),
  ];
}

export function readSeparateDuties(reading: Reading, type: StepType): boolean {
  const isSeparate = flagField(reading, "separate_duties") ?? false;
  if (isSeparate && type !== "approval") report(reading, "separate_duties", "only goes with approval steps");
  return isSeparate;
}
