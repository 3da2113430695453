// Clients and approvers of tenants whose runs workers do: keys sent twice, other requests under the same key, cancels, two verdicts.
import { outcomeOf } from "./asking.ts";
import { createGatewayClient } from "./gateways.ts";
import {
  askCancel,
  askGet,
  askStart,
  type KeyedStart,
  type Knowledge,
  type Lane,
  nameOf,
  noteKey,
  pause,
} from "./ledger-load.ts";
import type { Tenant } from "./tenants.ts";
import { queuedWorkflows } from "./workflows.ts";

const approversPerTenant = 2;

/** What the clients of a tenant start, drawn anew each time. */
export type Starts = {
  readonly clients: number;
  choose(random: Lane["random"]): Pick<KeyedStart, "workflow" | "customer">;
};

export const anyWork: Starts = {
  clients: 2,
  choose: (random) => ({ workflow: random.pick(["plain", "plain", "plain", "approved", "risky"]) }),
};

/** Few customers and many clients, so that most runs find another one of their customer. */
export const anyQueued: Starts = {
  clients: 4,
  choose: (random) => ({
    workflow: random.pick(Object.values(queuedWorkflows)).id,
    customer: `c${random.integer(1, 2)}`,
  }),
};

/** Resolves when the signal is aborted and every client has its last answer. */
export async function useWorkers(
  lane: Lane,
  knowledge: Knowledge,
  tenant: Tenant,
  starts: Starts,
): Promise<void> {
  const clients = Array.from({ length: starts.clients }, (_, number) =>
    start(lane, knowledge, { tenant, starts }, number),
  );
  await Promise.all(clients);
}

/** Goes on for longer than the clients: what they have started may still wait for a decision. */
export async function decideApprovals(lane: Lane, tenant: Tenant): Promise<void> {
  await Promise.all(Array.from({ length: approversPerTenant }, (_, number) => approve(lane, tenant, number)));
}

type Starting = { readonly tenant: Tenant; readonly starts: Starts };

async function start(
  lane: Lane,
  knowledge: Knowledge,
  { tenant, starts }: Starting,
  number: number,
): Promise<void> {
  const { asker, signal, urls } = lane;
  const name = `${tenant.id}.${number + 1}`;
  const random = lane.random.stream(name);
  const one = createGatewayClient(urls, tenant.admin, number);
  const other = createGatewayClient(urls, tenant.admin, number + 1);
  const recent: string[] = [];
  const send = async (gateway: typeof one, client: string, wanted: KeyedStart) => {
    noteKey(knowledge, wanted);
    const outcome = await askStart(asker, client, gateway, wanted);
    if (outcome.kind !== "ok") return outcome.kind;
    const { run_id, replayed } = outcome.value;
    if (!knowledge.runs.has(run_id)) {
      knowledge.runs.set(run_id, tenant);
      knowledge.runOfKey.set(nameOf(wanted), run_id);
      recent.push(run_id);
      if (recent.length > 20) recent.shift();
    }
    return replayed ? "replayed" : "started";
  };
  for (let order = 1; !signal.aborted; order += 1) {
    const wanted = { tenant, ...starts.choose(random), key: `${name}-${order}`, order };
    const twice = random.chance(0.25) ? [send(other, `${name}b`, wanted)] : [];
    const [known] = await Promise.all([send(one, name, wanted), ...twice]);
    // What is not known is asked again, as every client should.
    if (known === "unknown") await send(one, name, wanted);
    if (random.chance(0.1)) await send(other, `${name}b`, { ...wanted, order: -order });
    const runId = recent.length === 0 ? undefined : random.pick(recent);
    const about = { tenant: tenant.id, runId: runId ?? "" };
    if (runId !== undefined && random.chance(0.1)) await askCancel(asker, name, one, about);
    if (runId !== undefined && random.chance(0.5)) await askGet(asker, name, one, about);
    await pause(lane, random.integer(50, 350));
  }
}

/** Each decides about all that it sees, by its own mind: two of them at once. */
async function approve(lane: Lane, tenant: Tenant, number: number): Promise<void> {
  const { asker, signal, urls } = lane;
  const by = `${tenant.id}.approver-${number + 1}`;
  const random = lane.random.stream(by);
  const gateway = createGatewayClient(urls, tenant.admin, number);
  const decide = async (approvalId: string, decision: "approved" | "rejected") => {
    const outcome = await asker.ask({
      client: by,
      operation: { operation: "decide", tenant: tenant.id, approvalId, decision, by },
      send: () =>
        gateway
          .client()
          .call(decision === "approved" ? "approve" : "reject", { params: { job_id: approvalId } }),
      answerOf: ({ state }) => ({
        kind: "decided",
        decision: state === "rejected" ? "rejected" : "approved",
      }),
      refusalOf: ({ approval }) => {
        const winner = (approval as { readonly state?: unknown } | undefined)?.state;
        return winner === "approved" || winner === "rejected"
          ? { kind: "decided", decision: winner }
          : undefined;
      },
    });
    gateway.learn(outcome);
  };
  while (!signal.aborted) {
    const listed = await outcomeOf(() =>
      gateway.client().call("listApprovals", { query: { state: "pending", limit: 20 } }),
    );
    gateway.learn(listed);
    if (listed.kind === "ok") {
      const decisions = listed.value.items.map(({ job_id }) =>
        decide(job_id, random.chance(0.8) ? "approved" : "rejected"),
      );
      await Promise.all(decisions);
    }
    await pause(lane, 400);
  }
}
