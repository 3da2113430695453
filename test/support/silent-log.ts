// A log that says nothing, for tests whose faults would fill the output.
import type { Log } from "../../src/ports/ports.ts";

export const silentLog: Log = { info: () => {}, warn: () => {}, error: () => {} };
