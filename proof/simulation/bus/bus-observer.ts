// Observes the simulated bus: the way of every message, at the moment it happens.
import type { BusMessage, BusStream, Handlers } from "../../../src/ports/bus.ts";

export type ObservedMessage = {
  /** The same for every delivery of one message to the consumers of one name. */
  readonly identity: object;
  readonly stream: BusStream;
  readonly sent: BusMessage;
  /** The same message counts its deliveries anew when its consumer was made again. */
  readonly life: number;
};

export type BusObserver = {
  fault(kind: string): void;
  published(stream: BusStream, sent: BusMessage): void;
  /** Stored once more, past the window in which its id is remembered. */
  repeated(stream: BusStream, sent: BusMessage): void;
  publishedUnknown(): void;
  /** Acknowledged, and lost. */
  forgotten(stream: BusStream, sent: BusMessage): void;
  streamRemoved(): void;
  /** Said of an earlier delivery, and not heard. */
  lateWordRefused(): void;
  /** The adapter ended it without its being done: never delivered again. */
  dropped(stream: BusStream, sent: BusMessage): void;
  /** Goes around the handlers that get this delivery. */
  watched(handlers: Handlers, message: ObservedMessage): Handlers;
};

export const unobserved: BusObserver = {
  fault: () => {},
  published: () => {},
  repeated: () => {},
  publishedUnknown: () => {},
  forgotten: () => {},
  streamRemoved: () => {},
  lateWordRefused: () => {},
  dropped: () => {},
  watched: (handlers) => handlers,
};
