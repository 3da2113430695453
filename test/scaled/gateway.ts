// Starts the measured server, sends one request at a time and reports its cost. One that no longer answers is replaced.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Client } from "../fuzz/generate.ts";
import { createKnowledge } from "../fuzz/knowledge.ts";
import { createSender, type FuzzAnswer, type FuzzRequest } from "../fuzz/request.ts";
import { type ChildProgram, startChildProgram } from "../support/child-program.ts";
import type { Command, Lap, Opened } from "./gateway-program.ts";

export type Cost = Lap & { readonly answer: FuzzAnswer };

export type MeasuredGateway = {
  readonly client: Client;
  readonly things: Opened["things"];
  /** Without looking at what it costs. */
  send(request: FuzzRequest): Promise<FuzzAnswer>;
  /** `settles`: what goes on after the answer counts, too. Undefined when there was no end within the time. */
  measure(request: FuzzRequest, settles: boolean): Promise<Cost | undefined>;
  close(): Promise<void>;
};

/** CPU time of one request; a busy machine may need much longer to give it. */
const endlessMs = 6_000;
const answerWithinMs = 120_000;

type Running = Opened & {
  readonly child: ChildProgram;
  readonly sender: ReturnType<typeof createSender>;
  readonly directory: string;
};

export async function openMeasuredGateway(): Promise<MeasuredGateway> {
  let running = await start();
  const knowledge = createKnowledge();
  learn(knowledge, running.things);
  const client: Client = {
    knowledge,
    keys: { ofRole: (role) => String(running.keys[role]), others: running.otherKeys },
  };
  const lap = async (command: Command): Promise<Lap> => {
    running.child.say(command);
    return running.child.next<Lap>(answerWithinMs);
  };
  return {
    client,
    get things() {
      return running.things;
    },
    send: (request) => running.sender.send(request),
    async measure(request, settles) {
      let answer: FuzzAnswer | undefined;
      for (let tries = 0; tries === 0 || (isShed(answer) && tries < shedTriesMax); tries += 1) {
        // Shed for what came before it: nothing was measured then.
        if (tries > 0) await new Promise((resolve) => setTimeout(resolve, shedWaitMs));
        await lap("lap");
        answer = await unlessEndless(running.child, running.sender.send(request));
      }
      const cost =
        answer === undefined
          ? undefined
          : await unlessEndless(running.child, lap(settles ? "settle" : "lap"));
      if (answer !== undefined && cost !== undefined) return { ...cost, answer };
      await stop(running);
      running = await start();
      learn(knowledge, running.things);
      return undefined;
    },
    close: () => stop(running),
  };
}

const shedWaitMs = 250;
const shedTriesMax = 20;

const isShed = (answer: FuzzAnswer | undefined): boolean =>
  answer?.kind === "answered" && answer.status === 503 && answer.text.includes('"overloaded"');

async function start(): Promise<Running> {
  const directory = mkdtempSync(join(tmpdir(), "interlock-scaled-"));
  const child = startChildProgram(join(import.meta.dirname, "gateway-program.ts"), { directory });
  const opened = await child.next<Opened>(60_000);
  return { ...opened, child, directory, sender: createSender(opened.url, answerWithinMs) };
}

async function stop({ child, sender, directory }: Running): Promise<void> {
  sender.close();
  await child.stop();
  rmSync(directory, { recursive: true, force: true });
}

function learn(knowledge: Client["knowledge"], things: Opened["things"]): void {
  for (const [kind, value] of [
    ["workflow", "simple"],
    ["run", things.runId],
    ["simpleRun", things.runId],
    ["listRun", things.listRunId],
    ["step", "one"],
    ["job", things.jobId],
    ["approval", things.approvalId],
    ["hash", things.approvalHash],
    ["letter", things.letterId],
    ["tenant", "acme"],
    ["apiKey", things.keyId],
    ["idempotencyKey", "bound-key"],
    ["pool", "batch"],
    ["topic", "work"],
    ["resource", "invoice/7"],
    ["worker", "w-1"],
    ["canary", things.canaryId],
  ] as const) {
    knowledge.learn(kind, value);
  }
}

/** Undefined when the main thread of the server has computed for so long that nobody would have waited for it. */
async function unlessEndless<Value>(
  { process: child }: ChildProgram,
  work: Promise<Value>,
): Promise<Value | undefined> {
  const schedule = `/proc/${child.pid}/task/${child.pid}/schedstat`;
  const computedMs = () => Number(readFileSync(schedule, "latin1").split(" ", 1)[0]) / 1_000_000;
  const startedMs = computedMs();
  let look: NodeJS.Timeout | undefined;
  const endless = new Promise<undefined>((resolve) => {
    look = setInterval(() => {
      if (child.exitCode !== null || computedMs() - startedMs > endlessMs) resolve(undefined);
    }, 200);
  });
  try {
    return await Promise.race([work.catch(() => undefined), endless]);
  } finally {
    clearInterval(look);
  }
}
