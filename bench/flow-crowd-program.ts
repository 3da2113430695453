// The clients of the flow benchmark, as a process: reads a crowd per line, sends all its starts at once, and prints what it took.
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { pauseBefore } from "../src/sdk/call.ts";
import { InterlockApiError } from "../src/sdk/client-errors.ts";
import type { CrowdOrder, CrowdSaid } from "./flow-crowd.ts";
import { type CrowdWay, customers } from "./flow-plan.ts";
import { type Answer, type Exchange, openExchange, postText } from "./http-exchange.ts";

/** Requests under way at once: those that pause between two tries have none. */
const connections = 100;
/** The SDK gives up after so many; whoever still wants the run asks again with the same key. */
const sdkAttemptsMax = 8;

async function send({ port, key, way, starts, name }: CrowdOrder): Promise<CrowdSaid> {
  const exchanges = await Promise.all(Array.from({ length: connections }, () => openExchange(port)));
  const lines = createLines(exchanges);
  let requests = 0;
  const startOne = async (number: number) => {
    const customer = customerOf(number, starts);
    const body = JSON.stringify({ customer, order: number });
    const headers = { "x-api-key": key, "idempotency-key": `${name}-${number}` };
    const text = postText(`/api/v1/workflows/${workflowOf(way)}/runs`, headers, body);
    for (let attempt = 1; ; attempt = (attempt % sdkAttemptsMax) + 1) {
      requests += 1;
      const answer = await lines.send(text);
      if (answer.status === 200 || answer.status === 202) return;
      if (answer.status !== 429) throw new Error(`a start was answered ${answer.status}: ${answer.bytes}`);
      await delay(pauses[way](attempt, answer));
    }
  };
  const beganMs = performance.timeOrigin + performance.now();
  try {
    await Promise.all(Array.from({ length: starts }, (_, number) => startOne(number)));
  } finally {
    for (const exchange of exchanges) exchange.close();
  }
  return { kind: "sent", requests, beganMs };
}

/** One customer's starts after the other's: whoever serves them as they come serves the first customer first. */
function customerOf(number: number, starts: number): number {
  return Math.floor((number * customers) / starts);
}

function workflowOf(way: CrowdWay): string {
  return way === "queue" ? "crowd-queues" : "crowd-rejects";
}

const pauses: Readonly<Record<CrowdWay, (attempt: number, refused: Answer) => number>> = {
  queue: () => {
    throw new Error("a start was refused although it might have waited");
  },
  retry_sdk: (attempt, refused) => pauseBefore(attempt, errorOf(refused), Math.random()),
  retry_jitter: () => 10 + Math.random() * 150,
};

/** As the SDK has it after such an answer. */
function errorOf({ bytes, bodyAt }: Answer): InterlockApiError {
  const seconds = /\r\nretry-after: *(\d+)/i.exec(bytes.toString("latin1", 0, bodyAt))?.[1];
  if (seconds === undefined) throw new Error("a refused start has no Retry-After");
  const seen = { asked: "startRun", retryAfterMs: Number(seconds) * 1_000, requestId: undefined } as const;
  return new InterlockApiError(JSON.parse(bytes.toString("utf8", bodyAt)), { ...seen, effect: "none" });
}

/** Whoever has something to send takes the next connection that is free. */
function createLines(exchanges: readonly Exchange[]) {
  const free = [...exchanges];
  const waiting: Array<(exchange: Exchange) => void> = [];
  return {
    async send(text: string): Promise<Answer> {
      const exchange = free.pop() ?? (await new Promise<Exchange>((resolve) => waiting.push(resolve)));
      try {
        return await exchange.send(text);
      } finally {
        const next = waiting.shift();
        if (next === undefined) free.push(exchange);
        else next(exchange);
      }
    },
  };
}

async function answerTo(line: string): Promise<CrowdSaid> {
  try {
    return await send(JSON.parse(line) as CrowdOrder);
  } catch (error) {
    return { kind: "broken", cause: error instanceof Error ? error.message : String(error) };
  }
}

// Ends with its input: when the process that started it is gone, so is this one.
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answerTo(line)));
}
