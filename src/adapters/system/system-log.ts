// Log lines as JSON on standard error, so that a program's own output stays readable; the same line is not repeated without end.
import { pino } from "pino";
import type { Clock, Log, LogFields, Metrics } from "../../ports/ports.ts";

export function createSystemLog(level: "info" | "warn" | "error" | "silent"): Log {
  const logger = pino({ level, base: null }, pino.destination({ dest: 2, sync: true }));
  return {
    info: (message, fields = {}) => logger.info(fields, message),
    warn: (message, fields = {}) => logger.warn(fields, message),
    error: (message, fields = {}) => logger.error(fields, message),
  };
}

type RepeatPorts = { readonly clock: Pick<Clock, "monotonicMs" | "timer">; readonly metrics: Metrics };
type Level = keyof Log;
type Repeats = {
  readonly level: Level;
  readonly message: string;
  readonly untilMs: number;
  lines: number;
  held: number;
  fields: LogFields;
};

/** An outage repeated one line 6,200 times in ten minutes, and hid all others. */
const linesPerMinute = 3;
const minuteMs = 60_000;
/** Different lines remembered; the oldest is forgotten first, and written again when it comes back. */
const linesMax = 1_000;

/** The first lines of a minute are written; the others become one line at its end, with `repeated` and the latest fields. */
export function limitRepeats(log: Log, { clock, metrics }: RepeatPorts): Log {
  const known = new Map<string, Repeats>();

  function remember(key: string, repeats: Repeats): void {
    known.delete(key);
    known.set(key, repeats);
    const [oldest] = known;
    if (known.size > linesMax && oldest !== undefined) tell(...oldest);
  }

  function tell(key: string, { level, message, fields, held }: Repeats): void {
    known.delete(key);
    if (held > 0) log[level](message, { ...fields, repeated: held });
  }

  /** A line that goes on being repeated is told once a minute from then on. */
  function endMinute(key: string, repeats: Repeats): void {
    if (known.get(key) !== repeats) return;
    tell(key, repeats);
    const untilMs = repeats.untilMs + minuteMs;
    remember(key, { ...repeats, untilMs, lines: linesPerMinute, held: 0 });
  }

  const write =
    (level: Level) =>
    (message: string, fields: LogFields = {}) => {
      const key = identityOf(level, message, fields);
      const nowMs = clock.monotonicMs();
      let repeats = known.get(key);
      if (repeats === undefined || (repeats.untilMs <= nowMs && repeats.held === 0)) {
        repeats = { level, message, untilMs: nowMs + minuteMs, lines: 0, held: 0, fields };
        remember(key, repeats);
      }
      if (repeats.lines < linesPerMinute) {
        repeats.lines += 1;
        log[level](message, fields);
        return;
      }
      const minute = repeats;
      if (minute.held === 0) clock.timer(minute.untilMs - nowMs, () => endMinute(key, minute));
      minute.held += 1;
      minute.fields = fields;
      metrics.count("log_repeats_total", { level });
    };
  return { info: write("info"), warn: write("warn"), error: write("error") };
}

/** Nobody waits for a line about repeats: a program that has done its work ends without it. */
export const repeatsClock: RepeatPorts["clock"] = {
  monotonicMs: () => performance.now(),
  timer(ms, callback) {
    const timer = setTimeout(callback, ms).unref();
    return () => clearTimeout(timer);
  },
};

/** Texts say what happened, and to whom: numbers only how often or how long, and a request's id is another one each time. */
function identityOf(level: Level, message: string, fields: LogFields): string {
  const texts = Object.entries(fields).filter(
    ([name, value]) => typeof value === "string" && name !== "request",
  );
  return JSON.stringify([level, message, texts]);
}
