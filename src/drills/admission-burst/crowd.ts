// A crowd of clients that start runs at the same moment, and try again if they may: how often each asked, and when it got its run.
import { type Client, createClient } from "../../sdk/client.ts";
import { runtime } from "../../sdk/runtime.ts";
import { type StartTry, tryStart } from "../try-start.ts";
import { type ClientPolicy, type ClientTerms, clientPauseMs } from "./plan.ts";
import { Slots } from "./slots.ts";

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
