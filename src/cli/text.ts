// Words for people: colours where they are wanted, times as ages, and nothing that could take over a terminal.
import { styleText } from "node:util";
import { parseTime } from "../domain/engine/rfc3339.ts";
import type { Paper, Terminal } from "./terminal.ts";

export type Tone = "good" | "bad" | "busy" | "quiet" | "strong" | "plain";

const formats = {
  good: "green",
  bad: "red",
  busy: "yellow",
  quiet: "gray",
  strong: "bold",
} as const satisfies Partial<Record<Tone, Parameters<typeof styleText>[0]>>;

export type Paint = (tone: Tone, text: string) => string;

/** Colours are for people at a terminal who have not said no: https://no-color.org. */
export function paintFor(paper: Paper, env: Terminal["env"]): Paint {
  const isWanted = paper.isTty && (env.NO_COLOR === undefined || env.NO_COLOR === "") && env.TERM !== "dumb";
  return (tone, text) => {
    if (!isWanted || tone === "plain" || text === "") return text;
    return styleText(formats[tone], text, { validateStream: false });
  };
}

/** Text that came from elsewhere, such as an owner's name or an error: an escape sequence in it must not reach a terminal. */
export function visible(text: string): string {
  return text.replaceAll(/\p{Cc}|\p{Cf}|\p{Zl}|\p{Zp}/gu, (character) =>
    character === "\n" || character === "\t" ? " " : "\u{fffd}",
  );
}

/** On one line, cut with an ellipsis. */
export function shortened(text: string, charactersMax: number): string {
  const characters = [...visible(text)];
  return characters.length <= charactersMax
    ? characters.join("")
    : `${characters.slice(0, charactersMax - 1).join("")}…`;
}

/** As few words as tell it: 850 ms, 12 s, 5 min, 3 h, 12 d. */
export function duration(ms: number): string {
  const whole = Math.max(0, Math.round(ms));
  if (whole < 1_000) return `${whole} ms`;
  if (whole < 10_000) return `${(whole / 1_000).toFixed(1)} s`;
  const units = [
    ["s", 1_000, 120],
    ["min", 60_000, 120],
    ["h", 3_600_000, 48],
  ] as const;
  for (const [unit, size, below] of units) {
    if (whole < size * below) return `${Math.floor(whole / size)} ${unit}`;
  }
  return `${Math.floor(whole / 86_400_000)} d`;
}

/** How long ago; a time in the future is shown as one. */
export function age(time: string | undefined, nowMs: number): string {
  const atMs = time === undefined ? undefined : parseTime(time);
  if (atMs === undefined) return "";
  return atMs > nowMs + 1_000 ? `in ${duration(atMs - nowMs)}` : `${duration(nowMs - atMs)} ago`;
}

export function between(from: string | undefined, to: string | undefined): string {
  const [fromMs, toMs] = [from, to].map((time) => (time === undefined ? undefined : parseTime(time)));
  return fromMs === undefined || toMs === undefined ? "" : duration(toMs - fromMs);
}

const tones: Readonly<Record<string, Tone>> = {
  succeeded: "good",
  approved: "good",
  ok: "good",
  failed: "bad",
  timed_out: "bad",
  denied: "bad",
  rejected: "bad",
  expired: "bad",
  fail: "bad",
  running: "busy",
  waiting: "busy",
  pending: "busy",
  warn: "busy",
  open: "busy",
  cancelled: "quiet",
  skipped: "quiet",
};

export function toneOf(status: string): Tone {
  return tones[status] ?? "plain";
}
