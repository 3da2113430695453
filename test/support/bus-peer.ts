// The other side of a worker over NATS, played by a test: it checks what the worker sends by the page on the protocol and answers as told.
import { createHmac } from "node:crypto";
import { AckPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, headers, type Msg, type NatsConnection } from "@nats-io/transport-node";
import type { TestContext } from "vitest";
import { hashSecret, makeKeyText } from "../../src/domain/api-key.ts";
import type { NatsServer } from "../../src/drills/servers/start-servers.ts";
import {
  type WaitingResult,
  type Worker,
  type WorkerOptions,
  type WorkerTrouble,
  worker,
} from "../../src/sdk/index.ts";

export type Json = { readonly [name: string]: unknown };

export type Received = {
  readonly subject: string;
  readonly body: Json;
  readonly replyTo: string;
  readonly messageId: string;
  header(name: string): string;
};

type Signing = { readonly secretHash?: string; readonly expiresAtMs?: number };

/** Answers as often as it likes. */
export type Answer = (value: Json, signing?: Signing) => void;
type Reaction = (received: Received, answer: Answer) => void;

export type BusPeer = {
  readonly prefix: string;
  readonly apiKey: string;
  readonly polls: Received[];
  readonly heartbeats: Received[];
  readonly results: Received[];
  /** Results that came as requests; none is taken by default. */
  readonly reports: Received[];
  /** By default a poll is answered with the jobs that were offered, a heartbeat extends, a result is accepted. */
  on: { poll: Reaction; heartbeat: Reaction; result: Reaction; report: Reaction };
  /** For the next poll that waits or comes. */
  offer(...jobs: readonly Json[]): void;
  /** Begins to take results out of their stream, which it makes. */
  takeResults(): Promise<void>;
  makeStream(): Promise<void>;
  removeStream(): Promise<void>;
  /** How many results are in the stream. */
  stored(): Promise<number>;
  /** Whether somebody listens to the subject. */
  hasListener(subject: string): Promise<boolean>;
  /** Throws when a message broke the protocol. */
  close(): Promise<void>;
};

let peers = 0;

export async function startBusPeer(
  server: Pick<NatsServer, "port">,
  { tenant = "acme", login = {} }: { readonly tenant?: string; readonly login?: object } = {},
): Promise<BusPeer> {
  peers += 1;
  const prefix = `worker${peers}`;
  const key = { keyId: `${tenant}.key${peers}`, secret: "5e".repeat(24) };
  const connection = await connect({ servers: `127.0.0.1:${server.port}`, reconnectTimeWait: 50, ...login });
  const wire = createWire(connection, {
    prefix,
    tenant,
    keyId: key.keyId,
    secretHash: hashSecret(key.secret),
  });
  const jobs: Json[] = [];
  const open = new Map<string, () => void>();
  const polls: Received[] = [];
  const heartbeats: Received[] = [];
  const results: Received[] = [];
  const reports: Received[] = [];

  const on: BusPeer["on"] = {
    poll(received, answer) {
      const { poll_id: id, wait_ms: waitMs, max_jobs: most } = received.body;
      open.get(String(id))?.();
      const end = () => {
        clearTimeout(timer);
        open.delete(String(id));
        answer({ status: 200, body: { jobs: jobs.splice(0, Number(most)) } });
      };
      const timer = setTimeout(end, jobs.length > 0 ? 0 : Number(waitMs));
      open.set(String(id), end);
    },
    heartbeat({ body }, answer) {
      const beats = body.jobs as readonly Json[];
      const extended = beats.map(({ job_id }) => ({ job_id, kind: "extended", lease_ms: leaseMs }));
      answer({ status: 200, body: { jobs: extended } });
    },
    result: ({ body }, answer) => answer({ job_id: body.job_id, kind: "accepted" }),
    report: (_, answer) => answer({ status: 503, body: { code: "store_unavailable", retryable: true } }),
  };
  const requests = `${prefix}.requests.${wire.tenant}`;
  wire.listen(`${requests}.poll`, (received) => {
    polls.push(received);
    on.poll(received, wire.answering(received.replyTo));
  });
  wire.listen(`${requests}.heartbeat`, (received) => {
    heartbeats.push(received);
    on.heartbeat(received, wire.answering(received.replyTo));
  });
  wire.listen(`${requests}.report`, (received) => {
    reports.push(received);
    on.report(received, wire.answering(received.replyTo));
  });
  const stream = `${prefix}_results`;
  const makeStream = async () => {
    const manager = await jetstreamManager(connection);
    await manager.streams.add({ name: stream, subjects: [`${prefix}.results.>`] });
  };
  await connection.flush();

  return {
    prefix,
    apiKey: makeKeyText(key),
    polls,
    heartbeats,
    results,
    reports,
    on,
    offer(...more) {
      jobs.push(...more);
      for (const end of [...open.values()].slice(0, 1)) end();
    },
    makeStream,
    async removeStream() {
      await (await jetstreamManager(connection)).streams.delete(stream);
    },
    async stored() {
      return (await (await jetstreamManager(connection)).streams.info(stream)).state.messages;
    },
    async takeResults() {
      await makeStream();
      const manager = await jetstreamManager(connection);
      await manager.consumers.add(stream, { durable_name: "engines", ack_policy: AckPolicy.Explicit });
      const consumer = await jetstream(connection).consumers.get(stream, "engines");
      await consumer.consume({
        callback: (message) => {
          message.ack();
          const received = wire.read(message as unknown as Msg, 7 * 86_400_000);
          results.push(received);
          on.result(received, wire.answering(received.header("Interlock-Answer-To")));
        },
      });
    },
    async hasListener(subject) {
      return connection.request(subject, "", { timeout: 200 }).then(
        () => true,
        (error: Error) => !/no responders/i.test(String(error)),
      );
    },
    async close() {
      await connection.close();
      if (wire.problems.length > 0) throw new Error(wire.problems.join("\n"));
    },
  };
}

export const leaseMs = 30_000;

/** A job as a poll's answer has it. */
export function jobOf(name: string, more: Json = {}): Json {
  return {
    job_id: `run-${name}:greet@1`,
    run_id: `run-${name}`,
    step_id: "greet",
    attempt: 1,
    topic: "hello",
    claim_token: `token-${name}`,
    fence: 1,
    lease_ms: leaseMs,
    input: { name },
    ...more,
  };
}

export type BusScene = {
  readonly peer: BusPeer;
  readonly troubles: WorkerTrouble[];
  readonly waited: WaitingResult[];
  work(options?: Partial<WorkerOptions>): Worker;
};

/** A peer that takes results, and workers that greet; all end with the test. */
export async function openBusScene(
  server: NatsServer,
  onTestFinished: TestContext["onTestFinished"],
  { tenant = "acme", isTaking = true } = {},
): Promise<BusScene> {
  const peer = await startBusPeer(server, { tenant });
  if (isTaking) await peer.takeResults();
  const troubles: WorkerTrouble[] = [];
  const waited: WaitingResult[] = [];
  const workers: Worker[] = [];
  onTestFinished(async () => {
    await Promise.all(workers.map((each) => each.stop({ graceMs: 0 })));
    await peer.close();
  });
  return {
    peer,
    troubles,
    waited,
    work(options = {}) {
      const started = worker({
        bus: { servers: server.url, prefix: peer.prefix },
        apiKey: peer.apiKey,
        topics: { hello: (job) => ({ text: `Hello, ${(job.input as { name: string }).name}!` }) },
        concurrency: 5,
        onTrouble: (trouble) => troubles.push(trouble),
        onWaiting: (waiting) => waited.push(waiting),
        ...options,
      });
      started.finished.catch(() => undefined);
      workers.push(started);
      return started;
    },
  };
}

/** The messages of what was reported as unreachable. */
export function complaints(troubles: readonly WorkerTrouble[]): string {
  return troubles
    .map((trouble) => (trouble.kind === "server_unreachable" ? String(trouble.error) : ""))
    .join("\n");
}

type Wire = {
  readonly tenant: string;
  readonly problems: string[];
  listen(subject: string, hear: (received: Received) => void): void;
  read(message: Msg, expiresWithinMs: number): Received;
  answering(subject: string): Answer;
};

type Party = {
  readonly prefix: string;
  readonly tenant: string;
  readonly keyId: string;
  readonly secretHash: string;
};

function createWire(connection: NatsConnection, party: Party): Wire {
  const problems: string[] = [];
  const tenant = party.tenant.replaceAll(".", "=2E");
  const address = `${party.prefix}.answers.${tenant}.${party.keyId.slice(party.tenant.length + 1)}.`;
  const digest = (secret: string, [subject, id, expires]: readonly [string, string, number], body: string) =>
    createHmac("sha256", secret)
      .update(`${JSON.stringify([subject, id, expires])}\n${body}`)
      .digest("base64url");

  function read(message: Msg, expiresWithinMs: number): Received {
    const { subject } = message;
    const header = (name: string) => message.headers?.get(name) ?? "";
    const text = new TextDecoder().decode(message.data);
    const body = JSON.parse(text) as Json;
    const expires = Number(header("Interlock-Expires"));
    const check = (isRight: boolean, what: string) => {
      if (!isRight) problems.push(`${subject}: ${what}`);
    };
    const signed = [subject, header("Nats-Msg-Id"), expires] as const;
    check(header("Interlock-Protocol") === "1", "the protocol's version");
    check(header("Interlock-Key") === party.keyId, "the key's id");
    check(expires > Date.now() && expires <= Date.now() + expiresWithinMs, "the time when it expires");
    check(header("Interlock-Signature") === digest(party.secretHash, signed, text), "the signature");
    const replyTo = message.reply ?? "";
    if (!subject.includes(".results.")) check(replyTo.startsWith(address), "the reply subject");
    else check(header("Interlock-Answer-To").startsWith(address), "where to answer");
    return { subject, body, replyTo, messageId: header("Nats-Msg-Id"), header };
  }

  return {
    tenant,
    problems,
    read,
    listen(subject, hear) {
      const callback = (_: Error | null, message: Msg) => hear(read(message, 60_000));
      connection.subscribe(subject, { queue: "gateways", callback });
    },
    answering:
      (subject) =>
      (value, { secretHash = party.secretHash, expiresAtMs = Date.now() + 60_000 } = {}) => {
        const body = JSON.stringify(value);
        const fields = headers();
        fields.set("Interlock-Expires", String(expiresAtMs));
        fields.set("Interlock-Signature", digest(secretHash, [subject, "", expiresAtMs], body));
        if (!connection.isClosed()) connection.publish(subject, body, { headers: fields });
      },
  };
}
