// The bus port: carries hints and results quickly, at least once. The store knows the truth; the bus may forget.
/**
 * `hints`: jobs that wait for a worker, sent to every process that holds workers' offers. `notices` and `checks`: jobs that the
 * control plane does itself, each sent to one process. `results`: of workers that report over the bus, each sent to one process.
 */
export const busStreams = ["hints", "notices", "checks", "results"] as const;
export type BusStream = (typeof busStreams)[number];

/** All but `results` keep one message per subject, the latest; `results` keeps all until they are done. */
export function keepsLatest(stream: BusStream): boolean {
  return stream !== "results";
}

export type BusMessage = {
  /** Parts of any characters, separated by `/`. The first is whose it is, a tenant: a bus may let others not even name it. */
  readonly subject: string;
  /** A message with an id seen within the last two minutes is not stored again. */
  readonly messageId?: string;
  readonly body: string;
  /** The key that signs it in the control plane's place: `results` are workers'. */
  readonly sender?: Sender;
};

/** An API key as far as the bus needs it: its id, and the hash of its secret, by which its messages are signed. */
export type Sender = { readonly keyId: string; readonly secretHash: string };

/** Undefined when there is no such key. Throws while that cannot be found out: the message comes again. */
export type SenderOf = (keyId: string) => Promise<Sender | undefined>;

export type BusDelivery = {
  readonly subject: string;
  readonly body: string;
  /** 1 for the first delivery. */
  readonly deliveries: number;
  /** Time since it was stored, over all its deliveries; by the clocks of the bus and of this process. */
  readonly ageMs: number;
  /** The id of the key that has signed it; absent on a bus inside one process. */
  readonly sender?: string;
  /** Tells the sender what became of it, once or not at all; absent where nobody listens. */
  answer?(body: string): void;
};

/** What workers ask for over the bus; one process answers each. */
export const busRequests = ["poll", "heartbeat", "report"] as const;

export type BusRequest = {
  readonly request: (typeof busRequests)[number];
  readonly tenant: string;
  readonly sender: string;
  readonly body: string;
  readonly traceparent?: string;
  /** What one message of the answer may hold. */
  readonly bytesMax: number;
};

export type RequestHandlers = {
  /** The answer, as one message or several. */
  answer(request: BusRequest): Promise<readonly string[]>;
  readonly senderOf: SenderOf;
};

/** The three ends of a delivery. `retry` comes back after the delay; `drop` goes to the dead letters first. */
export type Verdict =
  | { readonly kind: "done" }
  | { readonly kind: "retry"; readonly delayMs: number; readonly because: string }
  | { readonly kind: "drop"; readonly because: string };

export type ConsumerTerms = {
  readonly stream: BusStream;
  /** Consumers of one name share the messages between them. On `hints` every name gets what is published while it consumes; elsewhere there is one name. */
  readonly name: string;
  /** Without a verdict for this long the message is delivered again. */
  readonly ackWaitMs: number;
  readonly deliveriesMax: number;
  /** Messages being handled at the same time; those that wait for their delay do not count, so that one hot run blocks nobody. */
  readonly pendingMax: number;
};

export type Handlers = {
  handle(delivery: BusDelivery): Promise<Verdict>;
  /** Called before a message is dropped; until it succeeds the message stays. */
  giveUp(delivery: BusDelivery, because: string): Promise<void>;
  /**
   * Whether nobody here has use for messages of this tenant and topic. A worker that comes later must look for what was
   * passed over: a bus may ask before something is published, or never.
   */
  passesOver?(tenant: string, topic: string): boolean;
  /** With it, only messages that a sender has signed are believed; without, those of the control plane. */
  readonly senderOf?: SenderOf;
  /** Messages may pass the consumer by: called about once a second while it is cut off from the bus, and once when it is back. */
  missed?(): void;
};

export type Consumer = { stop(): Promise<void> };

export type Publication =
  | { readonly kind: "published" }
  | { readonly kind: "unavailable"; readonly cause: string };

/** What processes tell each other: changed tenants, that they watch such changes, freed locks, freed places of a limit, which workers they see, canaries' samples. */
const busChannels = ["events", "watched", "locks", "places", "workers", "canaries"] as const;
export type BusChannel = (typeof busChannels)[number];

export type Bus = {
  publish(stream: BusStream, message: BusMessage): Promise<Publication>;
  /** True when every consumer of the stream passes over these: then nothing need be published. Absent where nobody can know. */
  passesOver?(stream: BusStream, tenant: string, topic: string): boolean;
  consume(terms: ConsumerTerms, handlers: Handlers): Consumer;
  /**
   * Reaches the other processes that listen at this moment, once or not at all, and never the one that says it: only for what is
   * found without it too, later.
   */
  announce(channel: BusChannel, body: string): void;
  /** What `hear` throws is logged: an announcement that cannot be read is left out. */
  listen(channel: BusChannel, hear: (body: string) => void): Consumer;
  /** Answers the requests of workers; a bus inside one process has none. */
  serve(handlers: RequestHandlers): Consumer;
  close(): Promise<void>;
};
