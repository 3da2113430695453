// A second store beside the simulated one: it gets the same calls, in batches of its own, and must answer the same.
import type { Answer, OperationName } from "../ports/store.ts";
import type { StoreCall } from "./simulated-store.ts";

export type ArrivedCall = {
  readonly call: StoreCall;
  /** Performs the call, and sends its answer. */
  execute(): void;
  /** The store is gone: its caller will not know. */
  lose(): void;
};

export type PerformedCall = StoreCall & {
  readonly answer: Answer<OperationName>;
  /** The store's time, before it is rounded. */
  readonly wallMs: number;
};

export type StoreTwin = {
  /** A call has arrived: the twin says when it is executed, and whether at all. */
  gather(arrived: ArrivedCall): void;
  performed(call: PerformedCall): void;
};
