// What the drill measures and how much of it; and a crowd of clients that start runs at the same moment and try again.
import { Worker } from "node:worker_threads";
import { type WaitShape, waitDelayMs } from "../../domain/lock.ts";
import type { WaitPolicy } from "../../domain/tenant.ts";
import { type Client, createClient } from "../../sdk/client.ts";
import { runtime } from "../../sdk/runtime.ts";
import { DrillImpossible, type DrillOptions, type Size } from "../drill.ts";
import { type StartTry, tryStart } from "../load/steady-load.ts";
import type { TenantFields } from "../target/target.ts";
import type { FromCrowdThread } from "./crowd-thread.ts";

export const limit = 2;

export const variants = ["lock-fixed", "lock-jitter", "atomic"] as const;
export type Variant = (typeof variants)[number];

export const tenantFields: Readonly<Record<Variant, TenantFields>> = {
  "lock-fixed": { max_concurrent_runs: limit, admission_strategy: "lock", admission_wait: "fixed" },
  "lock-jitter": { max_concurrent_runs: limit, admission_strategy: "lock", admission_wait: "jitter" },
  atomic: { max_concurrent_runs: limit, admission_strategy: "atomic" },
};

/** How the clients themselves try again. */
export const clientPolicies = ["fixed", "jitter"] as const satisfies readonly WaitPolicy[];
export type ClientPolicy = (typeof clientPolicies)[number];
export const clientPolicyNames: Readonly<Record<ClientPolicy, string>> = {
  fixed: "fixed delay",
  jitter: "jittered exponential",
};

export type ClientTerms = {
  /** From its first try on; a client whose next try would come later gives up. 0: one try. */
  readonly budgetMs: number;
  /** The fixed delay, or the first ceiling of the jittered one and the last. */
  readonly shape: WaitShape;
  /** A slot is freed this often. */
  readonly freeEveryMs: number;
};

export function clientPauseMs(policy: ClientPolicy, shape: WaitShape, retry: number): number {
  return waitDelayMs(policy, shape, retry, runtime.fraction());
}

export type Plan = {
  readonly requests: number;
  /** Sizes of the bursts of clients that retry, with their names. */
  readonly bursts: ReadonlyArray<{ readonly name: string; readonly clients: number }>;
  readonly clients: ClientTerms;
  readonly sweep?: { readonly waitsMs: readonly number[]; readonly budgetsMs: readonly number[] };
};

/** Of one tenant 2,000 requests may be under way at once: a larger burst would measure that limit instead. */
const clientsMax = 1_500;

export function planOf(size: Size, { requests = 100, sweep }: DrillOptions): Plan {
  if (requests <= limit || requests > clientsMax)
    throw new DrillImpossible(
      `--requests ${requests}: it takes more than the limit of ${limit}, and no more than ${clientsMax}, since a gateway lets one tenant have 2000 under way.`,
    );
  const isQuick = size === "quick";
  const once = isQuick ? Math.ceil(requests / 10) : requests;
  const tenfold = Math.min(10 * once, clientsMax);
  const bursts = [
    { name: `1x, ${once} clients`, clients: once },
    ...(tenfold > once
      ? [{ name: `${shortNumber(tenfold / once)}x, ${tenfold} clients`, clients: tenfold }]
      : []),
  ];
  const clients: ClientTerms = isQuick
    ? { budgetMs: 600, shape: { kind: "exponential", baseMs: 100, maxMs: 400 }, freeEveryMs: 10 }
    : { budgetMs: 6_000, shape: { kind: "exponential", baseMs: 1_000, maxMs: 4_000 }, freeEveryMs: 40 };
  const grid = isQuick
    ? { waitsMs: [100, 600], budgetsMs: [0, 600] }
    : { waitsMs: [100, 500, 2_000, 5_000], budgetsMs: [0, 2_000, 6_000] };
  return { requests, bursts, clients, ...(sweep ? { sweep: grid } : {}) };
}

function shortNumber(value: number): string {
  return String(Math.round(value * 10) / 10);
}

/** As it is sent to the thread of the clients. */
export type CrowdAsked = {
  readonly url: string;
  readonly adminKey: string;
  readonly workflow: string;
  readonly clients: number;
  readonly policy: ClientPolicy;
  /** Without them each client asks once, and nobody frees a slot. */
  readonly terms?: ClientTerms;
};

export type CrowdSeen = {
  /** Every try of every client, in the order of their answers; times from the crowd's beginning. */
  readonly tries: readonly StartTry[];
  /** For each client: whether it got a run, and when it did or gave up. */
  readonly ends: ReadonlyArray<{ readonly isStarted: boolean; readonly atMs: number }>;
  /** Runs that were surely active at once: between a start's answer and the request that ended the run. */
  readonly atOnceMost: number;
};

export async function crowd(asked: CrowdAsked): Promise<CrowdSeen> {
  const { url, adminKey, terms } = asked;
  const client = createClient({ url, apiKey: adminKey, retry: { attemptsMax: 1 } });
  await warmUp(client, asked);
  const beganMs = runtime.now().monotonicMs;
  const sinceBeganMs = () => runtime.now().monotonicMs - beganMs;
  const slots = new Slots({ url, adminKey, nowMs: sinceBeganMs });
  const tries: StartTry[] = [];
  const one = async () => {
    const tried = await startWithin(client, asked, (seen) => {
      tries.push({ ...seen, sentMs: seen.sentMs - beganMs });
    });
    if (tried.kind === "started") slots.taken(tried.runId);
    return { isStarted: tried.kind === "started", atMs: sinceBeganMs() };
  };
  const freeing = terms === undefined ? undefined : slots.freeEvery(terms.freeEveryMs);
  const ends = await Promise.all(Array.from({ length: asked.clients }, one));
  slots.stop();
  await freeing;
  return { tries, ends, atOnceMost: slots.atOnceMost() };
}

/** Connections are opened and the key is known: what is measured is the gate, not the way to it. */
async function warmUp(client: Client, { workflow, clients }: CrowdAsked): Promise<void> {
  await client.workflows.get(workflow);
  await Promise.all(Array.from({ length: clients }, () => client.workflows.get(workflow)));
}

/** One client: the same key until it has its run, or its budget is spent. */
async function startWithin(
  client: Client,
  { workflow, policy, terms }: CrowdAsked,
  tell: (tried: StartTry) => void,
): Promise<StartTry> {
  const startedMs = runtime.now().monotonicMs;
  const key = runtime.token();
  for (let retry = 0; ; retry += 1) {
    const tried = await tryStart(client, { workflow, key });
    tell(tried);
    if (tried.kind === "started" || terms === undefined) return tried;
    const pauseMs = clientPauseMs(policy, terms.shape, retry);
    if (runtime.now().monotonicMs - startedMs + pauseMs > terms.budgetMs) return tried;
    await runtime.sleep(pauseMs);
  }
}

type SlotsOptions = {
  readonly url: string;
  readonly adminKey: string;
  nowMs(): number;
};

class Slots {
  readonly #options: SlotsOptions;
  /** With retries: the drill's own calls must get through in the middle of the crowd. */
  readonly #admin: Client;
  /** Oldest first. */
  readonly #held: Array<{ readonly runId: string; readonly sinceMs: number }> = [];
  readonly #spans: Array<readonly [fromMs: number, toMs: number]> = [];
  readonly #stopped = new AbortController();

  constructor(options: SlotsOptions) {
    const { url, adminKey } = options;
    this.#options = options;
    this.#admin = createClient({ url, apiKey: adminKey });
  }

  taken(runId: string): void {
    this.#held.push({ runId, sinceMs: this.#options.nowMs() });
  }

  /** At multiples of the time, whatever ending a run takes: the pace is the same for every variant. */
  async freeEvery(everyMs: number): Promise<void> {
    const { nowMs } = this.#options;
    const { signal } = this.#stopped;
    for (let dueMs = nowMs() + everyMs; ; dueMs += everyMs) {
      await runtime.sleep(Math.max(0, dueMs - nowMs()), signal);
      if (signal.aborted) return;
      await this.#freeOldest();
    }
  }

  stop(): void {
    this.#stopped.abort();
  }

  /** Runs that are still held count as active until now. */
  atOnceMost(): number {
    const nowMs = this.#options.nowMs();
    return mostAtOnce([...this.#spans, ...this.#held.map(({ sinceMs }) => [sinceMs, nowMs] as const)]);
  }

  async #freeOldest(): Promise<void> {
    const oldest = this.#held.shift();
    if (oldest === undefined) return;
    this.#spans.push([oldest.sinceMs, this.#options.nowMs()]);
    await this.#admin.runs.cancel(oldest.runId);
  }
}

/** The most intervals that have a moment in common; one that ends as another begins has none with it. */
export function mostAtOnce(intervals: ReadonlyArray<readonly [fromMs: number, toMs: number]>): number {
  const changes = intervals
    .flatMap(([fromMs, toMs]) => [[fromMs, 1] as const, [toMs, -1] as const])
    .sort(([left, leftChange], [right, rightChange]) => left - right || leftChange - rightChange);
  let now = 0;
  let most = 0;
  for (const [, change] of changes) {
    now += change;
    most = Math.max(most, now);
  }
  return most;
}

/**
 * When (nearly) everybody has tried once, and who comes from then on comes back: arrivals without those that were due. What a
 * late process has not yet sent counts as sent, so this is not too early.
 */
export function crowdFormedMs(
  { arrivalsMs, dueMs }: { readonly arrivalsMs: readonly number[]; readonly dueMs: readonly number[] },
  clients: number,
): number {
  let due = 0;
  for (const [index, atMs] of arrivalsMs.entries()) {
    while ((dueMs[due] ?? Number.POSITIVE_INFINITY) <= atMs) due += 1;
    if (index + 1 - due >= nearlyAll * clients) return atMs;
  }
  return 0;
}

const nearlyAll = 0.95;

export type Crowds = {
  /** One at a time. Rejects when the thread breaks, and with the signal's reason when the user wants to stop. */
  run(asked: CrowdAsked, signal: AbortSignal): Promise<CrowdSeen>;
  close(): Promise<void>;
};

export function openCrowds(): Crowds {
  const thread = startThread();
  let hear = (_message: FromCrowdThread) => {};
  thread.on("message", (message: FromCrowdThread) => hear(message));
  thread.on("error", (error) => hear({ kind: "broken", error }));
  return {
    async run(asked, signal) {
      signal.throwIfAborted();
      const stop = () => hear({ kind: "broken", error: signal.reason as Error });
      signal.addEventListener("abort", stop);
      try {
        const received = new Promise<FromCrowdThread>((resolve) => {
          hear = resolve;
        });
        thread.postMessage(asked);
        const message = await received;
        if (message.kind === "broken") throw message.error;
        return message.seen;
      } finally {
        signal.removeEventListener("abort", stop);
      }
    },
    async close() {
      await thread.terminate();
    },
  };
}

/** As the embedded store starts its own: from source, a thread has to load TypeScript by itself. */
function startThread(): Worker {
  const isCompiled = import.meta.url.endsWith(".js");
  const program = new URL(isCompiled ? "./crowd-thread.js" : "./crowd-thread.ts", import.meta.url);
  if (isCompiled) return new Worker(program);
  if ("typescript" in process.features && process.features.typescript)
    return new Worker(program, { execArgv: [] });
  const loader = import.meta.resolve("tsx/esm/api");
  const bootstrap = `import("${loader}").then(({ register }) => { register(); return import("${program.href}"); })`;
  return new Worker(bootstrap, { eval: true, execArgv: [] });
}
