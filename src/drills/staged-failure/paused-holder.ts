// The second stage: a program behind a slow network holds a lock and is paused past its ttl; another owner takes over; it goes on.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { extname, join } from "node:path";
import { fenceHeaders } from "../../sdk/fence.ts";
import { runtime } from "../../sdk/runtime.ts";
import { type Check, check, type Stage } from "../drill.ts";
import { waitUntil } from "../load/times.ts";
import {
  asked,
  isInFenceOrder,
  type Listening,
  listenHere,
  openFencedSink,
  type SinkWrite,
  writeTo,
} from "../locks/public-locks.ts";
import { startChildProgram } from "../target/serve-process.ts";
import type { DrillTenant } from "../target/target.ts";

type PauseTerms = {
  readonly tenant: DrillTenant;
  readonly ttlMs: number;
  /** Of every request, and of every answer. */
  readonly delayMs: number;
  readonly startedMs: number;
};

export type PauseResult = {
  readonly checks: readonly Check[];
  readonly writes: readonly SinkWrite[];
  readonly pausedFromMs: number;
  readonly pausedToMs: number;
  readonly networkMs: readonly number[];
};

const [pausedOwner, newOwner] = ["paused-owner", "new-owner"];
const resource = "drill/staged-failure/paused";
const newTtlMs = 60_000;
const program = join(import.meta.dirname, `holder-program${extname(import.meta.filename)}`);

/** A process starts, asks over a slow network, and a machine may be busy. */
const slackMs = 30_000;

export async function pauseHolder(stage: Stage, terms: PauseTerms): Promise<PauseResult> {
  const { tenant, ttlMs, delayMs, startedMs } = terms;
  const { signal } = stage;
  const nowMs = () => runtime.now().monotonicMs - startedMs;
  const sink = await openFencedSink(startedMs);
  const network = await openSlowNetwork(tenant.client.url, delayMs);
  const said: HolderMessage[] = [];
  const child = startChildProgram({
    args: [program, resource, String(ttlMs), sink.url, pausedOwner],
    environment: { INTERLOCK_URL: network.url, INTERLOCK_API_KEY: tenant.adminKey },
    hear(line) {
      const message = readHolderMessage(line);
      if (message !== undefined) said.push(message);
    },
  });
  const hasSaid = (event: HolderMessage["event"]) => () => said.some((message) => message.event === event);
  const within = { withinMs: slackMs, signal };
  try {
    const isUp = () => hasSaid("holding")() || child.hasEnded();
    await waitUntil("a program holds the lock", isUp, within);
    if (child.hasEnded()) throw new Error(`the program ended:\n${child.output()}`);
    child.pause();
    const pausedFromMs = nowMs();
    stage.progress(`the holder is paused; its lock lives for ${ttlMs} ms more at most`);
    const next = await tenant.client.locks.acquire({
      ...{ resource, owner: newOwner, ttl_ms: newTtlMs, wait_ms: Math.min(60_000, 3 * ttlMs) },
    });
    const takenMs = nowMs();
    const headers = fenceHeaders({ resource, fence: next.fence });
    await writeTo(sink.url, newOwner, headers);
    const longerThanTtlMs = pausedFromMs + 1.1 * ttlMs - nowMs();
    await runtime.sleep(Math.max(0, longerThanTtlMs), signal);
    child.resume();
    const pausedToMs = nowMs();
    stage.progress(`the holder goes on after ${Math.round(pausedToMs - pausedFromMs)} ms`);
    await waitUntil("the program that was paused ends", () => child.hasEnded(), within);
    if (!hasSaid("ended")()) throw new Error(`the program that was paused failed:\n${child.output()}`);
    const held = await asked(tenant.client.locks.get(resource));
    const holder = held.kind === "answered" ? (held.value.owner ?? "") : "nobody";
    const lastWrite = await writeTo(sink.url, newOwner, headers);
    await asked(tenant.client.locks.release({ resource, token: next.token }));
    const seen = { said, holder, lastWrite, takeoverMs: takenMs - pausedFromMs, fence: next.fence };
    const checks = checksOf(seen, sink.writes, ttlMs);
    return { checks, writes: sink.writes, pausedFromMs, pausedToMs, networkMs: network.tookMs };
  } finally {
    await child.end("SIGKILL");
    await network.close();
    await sink.close();
  }
}

type Seen = {
  readonly said: readonly HolderMessage[];
  /** Who has the lock when the paused program has done its worst. */
  readonly holder: string;
  readonly lastWrite: number;
  readonly takeoverMs: number;
  readonly fence: number;
};

/** A waiter asks four times a second; the rest is for a busy machine. */
const takeoverSlackMs = 2_000;

function checksOf(seen: Seen, writes: readonly SinkWrite[], ttlMs: number): readonly Check[] {
  const { said, holder, lastWrite, takeoverMs, fence } = seen;
  const oldFence = said.flatMap((message) => (message.event === "holding" ? [message.fence] : []))[0] ?? 0;
  const lateWrites = said.flatMap((message) => (message.event === "wrote late" ? [message.status] : []));
  const renewed = said.flatMap((message) => (message.event === "renewed late" ? [message.answer] : []))[0];
  const released = said.flatMap((message) => (message.event === "released late" ? [message.answer] : []))[0];
  const given = said.flatMap((message) => (message.event === "asked for headers" ? [message.given] : []))[0];
  const lost =
    said.flatMap((message) => (message.event === "ended" ? [message.lost] : []))[0] ?? "it did not end";
  return [
    check(
      "paused past the ttl: another owner takes over, with a higher fence",
      `within ${ttlMs + takeoverSlackMs} ms, above ${oldFence}`,
      `after ${Math.round(takeoverMs)} ms, ${fence}`,
      takeoverMs <= ttlMs + takeoverSlackMs && fence > oldFence,
    ),
    check(
      "the paused owner's next write, ready before the pause, and one more with its old fence",
      "412, 412",
      lateWrites.join(", "),
      lateWrites.length === 2 && lateWrites.every((status) => status === 412),
    ),
    check(
      "the SDK tells the paused owner that the lock is lost, and gives no more headers",
      "lost, no headers",
      `${lost}, ${given === false ? "no headers" : "headers"}`,
      (lost === "deadline" || lost === "not_owned") && given === false,
    ),
    check(
      "the paused owner renews and releases, over the slow network",
      "lock_not_owned, lock_not_owned",
      `${renewed}, ${released}`,
      renewed === "lock_not_owned" && released === "lock_not_owned",
    ),
    check(
      "the new owner still holds the lock and writes",
      `${newOwner}, 204`,
      `${holder}, ${lastWrite}`,
      holder === newOwner && lastWrite === 204,
    ),
    check(
      "what the resource accepted never goes back to an older owner",
      "in the order of fences",
      isInFenceOrder(writes) ? "in the order of fences" : "out of order",
      isInFenceOrder(writes) && writes.some(({ accepted }) => !accepted),
    ),
  ];
}

/** Its address is what the client takes for the server. */
type SlowNetwork = Listening & {
  /** How long requests took, from their arrival here to the end of their answer. */
  readonly tookMs: readonly number[];
};

async function openSlowNetwork(serverUrl: string, delayMs: number): Promise<SlowNetwork> {
  const tookMs: number[] = [];
  const closed = new AbortController();
  const server = createServer((request, response) => {
    const arrivedMs = runtime.now().monotonicMs;
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    const stop = AbortSignal.any([gone.signal, closed.signal]);
    pass(request, response, { serverUrl, delayMs, stop }).then(
      () => tookMs.push(runtime.now().monotonicMs - arrivedMs),
      // The client or the server is gone: the client only sees a broken connection.
      () => response.destroy(),
    );
  });
  const { url, close } = await listenHere(server);
  return {
    url,
    tookMs,
    close() {
      closed.abort();
      return close();
    },
  };
}

type Way = { readonly serverUrl: string; readonly delayMs: number; readonly stop: AbortSignal };

async function pass(
  request: IncomingMessage,
  response: ServerResponse,
  { serverUrl, delayMs, stop }: Way,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  await runtime.sleep(delayMs, stop);
  // What has been sent arrives, also when its sender has hung up meanwhile.
  const answer = await fetch(`${serverUrl}${request.url}`, {
    method: request.method ?? "GET",
    headers: passedFields(request.headers),
    ...(chunks.length === 0 ? {} : { body: Buffer.concat(chunks) }),
  });
  const body = Buffer.from(await answer.arrayBuffer());
  await runtime.sleep(delayMs, stop);
  response.statusCode = answer.status;
  for (const name of ["content-type", "retry-after", "x-request-id"]) {
    const value = answer.headers.get(name);
    if (value !== null) response.setHeader(name, value);
  }
  response.end(body);
}

/** Fields that are about one connection stay with it. */
const ownFields = new Set(["host", "connection", "content-length", "transfer-encoding", "keep-alive"]);

function passedFields(headers: IncomingMessage["headers"]): Record<string, string> {
  const passed = Object.entries(headers).filter(([name]) => !ownFields.has(name));
  return Object.fromEntries(passed.map(([name, value]) => [name, String(value)]));
}

export type HolderMessage =
  | { readonly event: "holding"; readonly fence: number }
  /** What the resource answered to a write with the old fence. */
  | { readonly event: "wrote late"; readonly status: number }
  /** Whether the SDK still gave it what it needs for a write. */
  | { readonly event: "asked for headers"; readonly given: boolean }
  | { readonly event: "renewed late"; readonly answer: string }
  | { readonly event: "released late"; readonly answer: string }
  /** Why the SDK says that the lock was lost. */
  | { readonly event: "ended"; readonly lost: string };

/** Undefined for what Node itself may print. */
export function readHolderMessage(line: string): HolderMessage | undefined {
  return line.startsWith('{"event"') ? (JSON.parse(line) as HolderMessage) : undefined;
}
