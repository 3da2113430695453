// Operations with two planted faults, for the SQLite store's thread: one admission throws late, another ends the thread.
import { operations as real } from "../../src/adapters/operations/perform.ts";

export const operations: typeof real = {
  ...real,
  admit: (context, request) => {
    if (request.run.workflow === "thread_ends") process.exit(0);
    const outcome = real.admit(context, request);
    if (request.run.workflow === "throws_late") throw new Error("planted: after the writes");
    return outcome;
  },
};
