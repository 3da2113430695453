// What every operation gets besides its request: the state, the store's time and the fixed settings.
import type { StoreSettings } from "../../ports/store.ts";
import type { Records } from "./records.ts";

export type Context = {
  readonly records: Records;
  /** The store's own clock, in microseconds, fixed for the whole operation. */
  readonly nowUs: number;
  readonly settings: StoreSettings;
};

export function nowMs(context: Context): number {
  return Math.floor(context.nowUs / 1000);
}
