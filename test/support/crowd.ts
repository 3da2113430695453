// Many starts at one gate: sent under keys of their own, and judged by the recorded history when all have ended.
import { expect } from "vitest";
import { type Client, InterlockConnectionError } from "../../src/sdk/index.ts";

export type Crowd = {
  readonly workflow: string;
  /** The inputs, in the order in which they are sent. */
  readonly inputs: readonly object[];
  /** Requests under way at once. */
  readonly width: number;
};

/** By client in turns. Gives the runs in the order of the inputs, whichever order they were started in. */
export async function startCrowd(
  clients: readonly Client[],
  { workflow, inputs, width }: Crowd,
  onStarted: (status: string) => void = () => {},
): Promise<readonly string[]> {
  const runs: string[] = [];
  const rest = inputs.entries();
  const lane = async () => {
    for (const [number, input] of rest) {
      const client = clients[number % clients.length] as Client;
      const started = await startedUnder(client, { workflow, input, idempotencyKey: `start-${number}` });
      runs[number] = started.run_id;
      onStarted(started.status);
    }
  };
  await Promise.all(Array.from({ length: width }, lane));
  return runs;
}

const backWithinMs = 60_000;

/** A server that was killed takes a while to come back: the client gives up before, and is asked again with the same key. */
async function startedUnder(
  client: Client,
  asked: { readonly workflow: string; readonly input: object; readonly idempotencyKey: string },
) {
  const { workflow, input, idempotencyKey } = asked;
  const untilMs = Date.now() + backWithinMs;
  for (;;) {
    try {
      return await client.runs.start(workflow, input, { idempotencyKey });
    } catch (error) {
      if (!(error instanceof InterlockConnectionError) || Date.now() > untilMs) throw error;
    }
  }
}

export type CrowdHistory = {
  /** Runs in the order in which they began and ended. */
  readonly admitted: readonly string[];
  readonly ended: readonly string[];
  /** How many were active at once at the most. */
  readonly mostActive: number;
};

/** What the tenant's events say of these runs. */
export async function historyOf(client: Client, runs: readonly string[]): Promise<CrowdHistory> {
  const ours = new Set(runs);
  const admitted: string[] = [];
  const ended: string[] = [];
  let mostActive = 0;
  for (let query: { from?: "start"; cursor?: string } = { from: "start" }; ; ) {
    const page = await client.events.page({ ...query, limit: 500 });
    for (const { type, run_id = "" } of page.items) {
      if (!ours.has(run_id)) continue;
      if (type === "run_admitted") admitted.push(run_id);
      if (type === "run_ended") ended.push(run_id);
      mostActive = Math.max(mostActive, admitted.length - ended.length);
    }
    if (!page.has_more) return { admitted, ended, mostActive };
    query = { cursor: page.next_cursor };
  }
}

/** Every input has one run, which began and ended once; the limit was reached and never passed; nobody is left at the gate. */
export async function expectOnceEach(
  client: Client,
  runs: readonly string[],
  { gate, limit }: { readonly gate: string; readonly limit: number },
): Promise<CrowdHistory> {
  const all = [...runs].sort();
  expect(new Set(all).size).toBe(runs.length);
  const history = await historyOf(client, runs);
  expect([...history.admitted].sort()).toEqual(all);
  expect([...history.ended].sort()).toEqual(all);
  expect(history.mostActive).toBe(limit);
  const listed: string[] = [];
  for await (const { run_id, status } of client.runs.list({ limit: 200 })) {
    expect([run_id, status]).toEqual([run_id, "succeeded"]);
    listed.push(run_id);
  }
  expect(listed.sort()).toEqual(all);
  expect((await client.queues.list().take(10)).map((each) => each.gate)).toEqual([]);
  await expect(client.queues.show(gate)).resolves.toMatchObject({ active: 0, waiting: 0, limit });
  return history;
}

/** One customer's 900 starts, and ten of each of nine others, who come after all of those. */
export const unequalCustomers: readonly string[] = [
  ...Array<string>(900).fill("large"),
  ...Array.from({ length: 90 }, (_, index) => `small-${index % 9}`),
];

/** Each of the others is through before the 100th run of the large customer has ended. */
export function expectFairShares({ ended }: CrowdHistory, runs: readonly string[]): void {
  const customerOf = new Map(runs.map((run, index) => [run, unequalCustomers[index] as string]));
  const places = new Map<string, number[]>();
  for (const [place, run] of ended.entries()) {
    const customer = customerOf.get(run) as string;
    places.set(customer, [...(places.get(customer) ?? []), place]);
  }
  const hundredth = places.get("large")?.[99];
  for (const [customer, own] of places) {
    if (customer === "large") continue;
    expect(own, customer).toHaveLength(10);
    expect(own.at(-1), `the last of ${customer}`).toBeLessThan(hundredth as number);
  }
}
