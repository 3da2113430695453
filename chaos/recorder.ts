// Writes records of a history as lines of a file, each with the time of the one clock that all processes of a machine share.
import { closeSync, openSync, writeSync } from "node:fs";
import type { HistoryRecord } from "../proof/history/record.ts";

/** A record that does not say yet when it was made. */
export type Untimed<Record = HistoryRecord> = Record extends { readonly atUs: number }
  ? Omit<Record, "atUs">
  : Record;

export type Recorder = {
  /** What happens next has not happened when this returns, and the line is in the file. */
  now(record: Untimed): void;
  close(): void;
};

/** Linux gives every process the same monotonic clock: its zero is the start of the machine. */
export function nowUs(): number {
  return Number(process.hrtime.bigint() / 1_000n);
}

/** Appends, so that a process that is started again goes on in its file. */
export function openRecorder(file: string): Recorder {
  const descriptor = openSync(file, "a");
  return {
    now(record) {
      const timed =
        record.type === "begin" || record.type === "final" ? record : { ...record, atUs: nowUs() };
      // A system call each, 10 us: what a killed process has done is known up to its last moment.
      writeSync(descriptor, `${JSON.stringify(timed)}\n`);
    },
    close: () => closeSync(descriptor),
  };
}
