// A worker's line to the control plane over NATS: signs what is sent, and gives each answer to the one who waits for it.
import type { Msg } from "@nats-io/transport-node";
import type { Runtime } from "../runtime.ts";
import { type BusAccess, connectTo, failureOf, type Opened, unreached } from "./bus-access.ts";
import {
  type BusKey,
  type BusMessage,
  type BusSubjects,
  bytesOfHeaders,
  distrustOf,
  signedHeaders,
  subjectsOf,
} from "./bus-messages.ts";

/** What arrives at a subject that somebody listens to. */
export type Heard =
  /** JSON. Answers are signed by the control plane; acknowledgements come from the NATS server itself. */
  | { readonly kind: "message"; readonly value: unknown }
  /** Not from the control plane, or too late. */
  | { readonly kind: "distrusted"; readonly because: string }
  | { readonly kind: "no_responders" }
  /** What was on its way when the connection was lost may be lost with it. */
  | { readonly kind: "lost" }
  /** The NATS server does not let this user send or hear it. */
  | { readonly kind: "forbidden"; readonly error: Error };

type Listener = {
  readonly source: "control plane" | "stream";
  /** What is sent to this subject is refused: that is heard, too. */
  readonly about: string;
  hear(heard: Heard): void;
};

type Listening = {
  /** Where the answers are to arrive. */
  readonly subject: string;
  end(): void;
};

export type BusLink = {
  /** The servers, without passwords. */
  readonly url: string;
  readonly subjects: BusSubjects;
  /** Connects at the first call. Rejects with `InterlockConnectionError` when it may be tried again, with another error otherwise. */
  open(): Promise<void>;
  listen(listener: Listener): Listening;
  /** Throws `InterlockConnectionError` while there is no connection. */
  send(message: BusMessage, replyTo: string): void;
  /** Whether the server takes a message of this size. */
  fits(message: BusMessage): boolean;
  close(): Promise<void>;
};

const closeWithinMs = 2_000;

export function createBusLink(
  runtime: Runtime,
  { access, key, name }: { readonly access: BusAccess; readonly key: BusKey; readonly name: string },
): BusLink {
  const subjects = subjectsOf(access.prefix, key);
  const mailbox = createMailbox(runtime, key, `${subjects.answers}.${runtime.token()}`);
  let opened: Opened | undefined;
  let opening: Promise<void> | undefined;
  let isUp = false;
  let isClosed = false;
  let reconnects = 0;
  let lastError = "";
  /** The answers must not be heard: nothing else can be of use. */
  let refusal: Error | undefined;

  async function follow({ connection }: Opened): Promise<void> {
    for await (const status of connection.status()) {
      if (status.type === "error") {
        lastError = `: ${status.error.message}`;
        mailbox.refuse(failureOf(access, status.error), status.error);
      } else if (status.type === "reconnect") {
        isUp = true;
        reconnects = 0;
        lastError = "";
      } else if (status.type === "disconnect" || status.type === "close") {
        isUp = false;
        mailbox.tellAll({ kind: "lost" });
      }
    }
    // The client gave up its connection: the next call opens another one.
    opened = undefined;
  }

  async function connect(): Promise<void> {
    const client = { name, inboxPrefix: mailbox.subject, reconnects: () => reconnects++ };
    opened = await connectTo(runtime, access, client);
    isUp = true;
    void follow(opened);
    opened.connection.subscribe(`${mailbox.subject}.*`, {
      callback(error, message) {
        if (error === null) {
          mailbox.take(message);
          return;
        }
        refusal = failureOf(access, error);
        mailbox.tellAll({ kind: "forbidden", error: refusal });
      },
    });
  }

  return {
    url: access.shown,
    subjects,
    async open() {
      if (refusal !== undefined) throw refusal;
      if (isClosed) throw unreached(access, "the worker has stopped");
      if (opened === undefined) {
        opening ??= connect().finally(() => {
          opening = undefined;
        });
        await opening;
      }
      if (!isUp) throw unreached(access, `the connection is lost${lastError}`);
    },
    listen: mailbox.listen,
    send(message, replyTo) {
      if (opened === undefined || !isUp) throw unreached(access, `the connection is lost${lastError}`);
      const headers = opened.headers();
      for (const [field, value] of Object.entries(signedHeaders(key, message))) headers.set(field, value);
      opened.connection.publish(message.subject, message.body, { reply: replyTo, headers });
    },
    fits(message) {
      const bytes = bytesOfHeaders(signedHeaders(key, message)) + Buffer.byteLength(message.body);
      return bytes <= (opened?.connection.info?.max_payload ?? Number.POSITIVE_INFINITY);
    },
    async close() {
      isClosed = true;
      await opening?.catch(() => undefined);
      const connection = opened?.connection;
      // What was sent last must reach the server; one that hangs is not waited for.
      if (connection !== undefined && isUp) await settled(runtime, connection.flush(), closeWithinMs);
      await connection?.close();
      mailbox.tellAll({ kind: "lost" });
    },
  };
}

/** Resolves when the promise settles, however it does, or after the time. */
async function settled(runtime: Runtime, promise: Promise<unknown>, withinMs: number): Promise<void> {
  const isSettled = new AbortController();
  promise.then(
    () => isSettled.abort(),
    () => isSettled.abort(),
  );
  await runtime.sleep(withinMs, isSettled.signal);
}

type Mailbox = {
  /** Every subject that is listened to has one more token. */
  readonly subject: string;
  listen(listener: Listener): Listening;
  take(message: Msg): void;
  tellAll(heard: Heard): void;
  /** Tells those whose message the server refused. */
  refuse(error: Error, cause: Error): void;
};

function createMailbox(runtime: Runtime, key: BusKey, subject: string): Mailbox {
  const listeners = new Map<string, Listener>();
  let names = 0;
  return {
    subject,
    listen(listener) {
      names += 1;
      const own = `${subject}.${names.toString(36)}`;
      listeners.set(own, listener);
      return { subject: own, end: () => listeners.delete(own) };
    },
    take(message) {
      const listener = listeners.get(message.subject);
      listener?.hear(read(runtime, key, message, listener.source));
    },
    tellAll(heard) {
      for (const { hear } of [...listeners.values()]) hear(heard);
    },
    refuse(error, cause) {
      const { operation, subject: refused } = cause as { operation?: unknown; subject?: unknown };
      if (operation !== "publish") return;
      for (const { about, hear } of [...listeners.values()])
        if (about === refused) hear({ kind: "forbidden", error });
    },
  };
}

const noResponders = 503;

function read(runtime: Runtime, key: BusKey, message: Msg, source: Listener["source"]): Heard {
  const { subject, data, headers } = message;
  // The server itself says so: it has no key to sign with.
  if (headers?.code === noResponders && data.length === 0) return { kind: "no_responders" };
  if (source === "control plane") {
    const field = (name: string) => headers?.get(name) ?? "";
    const distrust = distrustOf(key, { subject, data, field }, runtime.now().wallMs);
    if (distrust !== undefined) return { kind: "distrusted", because: distrust };
  }
  try {
    return { kind: "message", value: message.json() };
  } catch {
    return { kind: "distrusted", because: "it is not JSON" };
  }
}
