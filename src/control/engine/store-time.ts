// The store's time as this process knows it: due times are counted by it, whatever the wall clock says.
import type { Clock } from "../../ports/ports.ts";

export type StoreTime = {
  learn(storeTimeMs: number): void;
  nowMs(): number;
};

export function createStoreTime(clock: Clock): StoreTime {
  let known: { readonly storeTimeMs: number; readonly atMs: number } | undefined;
  const nowMs = () =>
    known === undefined
      ? Math.floor(clock.wallMs())
      : known.storeTimeMs + Math.floor(clock.monotonicMs() - known.atMs);
  return {
    learn(storeTimeMs) {
      known = { storeTimeMs, atMs: clock.monotonicMs() };
    },
    nowMs,
  };
}
