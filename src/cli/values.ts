// Reads what people type after options: numbers, durations, times, JSON from the command line, a file or standard input.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { InvalidArgumentError } from "commander";
import type { JsonValue } from "../domain/fingerprint.ts";
import { UsageError } from "./run-program.ts";
import type { Terminal } from "./terminal.ts";

/** For commander's options: throws what it shows beside the option. */
export function wholeNumber(text: string): number {
  // Fences are microseconds since 1970: 16 digits.
  if (!/^\d{1,16}$/.test(text) || !Number.isSafeInteger(Number(text)))
    throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
}

const unitsMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  min: 60_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** `30s`, `5min`, `2h`, `7d`, in milliseconds. */
export function durationMs(text: string): number {
  const [, amount, unit = ""] = /^(\d{1,9}(?:\.\d{1,3})?) ?([a-z]+)$/.exec(text) ?? [];
  const unitMs = unitsMs[unit];
  if (amount === undefined || unitMs === undefined)
    throw new InvalidArgumentError("It must be a time such as 500ms, 30s, 5min, 2h or 7d.");
  return Math.round(Number(amount) * unitMs);
}

/** `10`, `0.5` or `10%`. */
export function percentage(text: string): number {
  const [, amount] = /^(\d{1,3}(?:\.\d{1,6})?) ?%?$/.exec(text) ?? [];
  if (amount === undefined || Number(amount) > 100)
    throw new InvalidArgumentError("It must be a percentage from 0 to 100, such as 10 or 0.5.");
  return Number(amount);
}

/** For options that may be given several times. */
export function collected(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}

/** `yes` or `no`, as settings spell it. */
export function yesOrNo(text: string): boolean {
  if (text === "yes" || text === "true") return true;
  if (text === "no" || text === "false") return false;
  throw new InvalidArgumentError("It must be yes or no.");
}

/** `-` is standard input, `@file` a file, anything else the text itself. */
async function typedText(terminal: Terminal, text: string): Promise<string> {
  if (text === "-") return terminal.readInput();
  return text.startsWith("@") ? fileText(terminal, text.slice(1)) : text;
}

/** `-` is standard input. */
export async function typedFile(terminal: Terminal, path: string): Promise<string> {
  return path === "-" ? terminal.readInput() : fileText(terminal, path);
}

function fileText({ typedFolder }: Terminal, path: string): string {
  try {
    return readFileSync(resolve(typedFolder, path), "utf8");
  } catch (error) {
    throw new UsageError(`cannot read ${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

export async function typedJson(terminal: Terminal, option: string, text: string): Promise<JsonValue> {
  const json = await typedText(terminal, text);
  try {
    return JSON.parse(json) as JsonValue;
  } catch (error) {
    throw new UsageError(
      `${option} is not JSON: ${error instanceof Error ? error.message : String(error)}\n` +
        `Quote it for the shell, as in ${option} '{"order": 17}', or name a file: ${option} @input.json`,
    );
  }
}
