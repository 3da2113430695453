// Log lines as JSON on standard error, so that a program's own output stays readable.
import { pino } from "pino";
import type { Log } from "../../ports/ports.ts";

export function createSystemLog(level: "info" | "warn" | "error" | "silent"): Log {
  const logger = pino({ level, base: null }, pino.destination({ dest: 2, sync: true }));
  return {
    info: (message, fields = {}) => logger.info(fields, message),
    warn: (message, fields = {}) => logger.warn(fields, message),
    error: (message, fields = {}) => logger.error(fields, message),
  };
}
