// Requests of workers over NATS, each answered by one process.
import type { Msg } from "@nats-io/transport-node";
import { type BusRequest, busRequests, type Consumer, type RequestHandlers } from "../../ports/bus.ts";
import type { Clock, Log } from "../../ports/ports.ts";
import { type Link, waitAtMost } from "./link.ts";
import type { Writing } from "./messages.ts";
import { createWorkerReader } from "./worker-messages.ts";

type AnsweringScene = {
  readonly clock: Clock;
  readonly log: Log;
  readonly link: Link;
  readonly writing: Writing;
};

/** Processes that answer share the requests between them. */
const queue = "gateways";
/** For requests that are on their way when this process stops; what comes later goes to others. */
const drainWithinMs = 500;
/** Left free in each message of an answer, for its head. */
const headBytes = 1_024;
/** Of a server that does not say. */
const payloadBytesDefault = 1_048_576;

export function answerWorkers(scene: AnsweringScene, handlers: RequestHandlers): Consumer {
  const { clock, log, link, writing } = scene;
  const { connection } = link;
  const read = createWorkerReader(writing, link, handlers.senderOf);

  async function answer(message: Msg): Promise<void> {
    const named = writing.names.readRequest(message.subject);
    const request = busRequests.find((each) => each === named?.request);
    if (named === undefined || request === undefined) return;
    const sent = await read("request", named.tenant, message);
    // Nobody would hear what came of it.
    if (sent.kind === "refused" || sent.answer === undefined) return;
    const traceparent = message.headers?.get("traceparent") ?? "";
    const asked: BusRequest = {
      request,
      tenant: named.tenant,
      sender: sent.sender,
      body: message.string(),
      ...(traceparent === "" ? {} : { traceparent }),
      bytesMax: (connection.info?.max_payload ?? payloadBytesDefault) - headBytes,
    };
    for (const body of await handlers.answer(asked)) sent.answer(body);
  }

  const subscription = connection.subscribe(writing.names.requests, {
    queue,
    callback: (error, message) => {
      if (error !== null) return;
      answer(message).catch((cause: unknown) => {
        log.warn("a request over the bus could not be answered", { cause: String(cause) });
      });
    },
  });
  return { stop: () => waitAtMost(clock, drainWithinMs, subscription.drain()) };
}
