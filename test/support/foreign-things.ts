// One of everything that a tenant can have, each with a word in it that nobody else may ever be shown.
import type { GatewayWorld, Things } from "./gateway-world.ts";
import { eventually } from "./sdk-world.ts";

/** In every text that the tenant chose itself: names, inputs, outputs, errors, reasons, owners. */
export const canary = "c4n4ry";

const workflow = `${canary}-flow`;
/** Workers of both tenants may know it: it is the one name that is no secret. */
const topic = "shared.work";

export type ForeignThings = Things & {
  readonly workflow: string;
  readonly topic: string;
  readonly pool: string;
  readonly resource: string;
  readonly idempotencyKey: string;
  /** Everything that names something of the tenant's, and none of which its owner has told. */
  readonly private: readonly string[];
};

type Asker = (method: string, path: string, body?: object, headers?: Record<string, string>) => Promise<Json>;
type Json = { readonly [name: string]: unknown };

/** Of tenant acme: a run with a claimed job, one that waits for an approval, one with a list, a failed one, a lock, a pool. */
export async function makeForeignThings({ ask, acme: keys }: GatewayWorld): Promise<ForeignThings> {
  const as =
    (key: (typeof keys)[keyof typeof keys]): Asker =>
    async (method, path, body, headers = {}) => {
      const answer = await ask(method, `/api/v1${path}`, {
        key,
        headers,
        ...(body === undefined ? {} : { body }),
      });
      if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
      return answer.json;
    };
  const admin = as(keys.admin);
  const worker = as(keys.worker);
  const operator = as(keys.operator);
  await saveWorkflows(admin);
  const idempotencyKey = `${canary}-key`;
  const input = { customer: `${canary} input` };
  const started = await operator("POST", `/workflows/${workflow}/runs`, input, {
    "idempotency-key": idempotencyKey,
  });
  const claimed = await claim(worker, topic);
  await worker("POST", "/jobs/heartbeat", {
    worker_id: `${canary}-worker`,
    jobs: [{ ...claimed, progress: { note: `${canary} progress` } }],
  });
  await operator("POST", `/workflows/${canary}-guarded/runs`, input);
  const { items } = await admin("GET", "/approvals");
  const [approval] = items as Array<{ job_id: string; hash: string }>;
  const list = await operator("POST", `/workflows/${canary}-list/runs`, input);
  await operator("POST", `/workflows/${canary}-queueing/runs`, input);
  const queued = await operator("POST", `/workflows/${canary}-queueing/runs`, input);
  const letterId = await makeLetter({ worker, operator, admin });
  const pool = `${canary}-pool`;
  await admin("PUT", `/pools/${pool}`, { max_running: 5, topics: [topic] });
  await admin("PUT", `/topics/${topic}`, { max_running: 5 });
  const resource = `${canary}/invoice`;
  const lock = await worker("POST", "/locks/acquire", {
    resource,
    owner: `${canary} agent`,
    ttl_ms: 3_600_000,
  });
  const spare = await admin("POST", "/keys", { role: "viewer", name: `${canary} key` });
  const things = {
    runId: String(started.run_id),
    listRunId: String(list.run_id),
    queuedRunId: String(queued.run_id),
    jobId: claimed.job_id,
    claimToken: claimed.claim_token,
    approvalId: String(approval?.job_id),
    approvalHash: String(approval?.hash),
    keyId: String(spare.id),
    letterId,
    lockToken: String(lock.token),
    lockFence: Number(lock.fence),
    canaryId: "canary-of-nobody",
  };
  return {
    ...things,
    workflow,
    topic,
    pool,
    resource,
    idempotencyKey,
    private: [
      ...[
        things.queuedRunId,
        things.runId,
        things.listRunId,
        things.jobId,
        things.claimToken,
        things.approvalId,
      ],
      ...[things.approvalHash, things.keyId, letterId, things.lockToken, String(spare.key)],
      ...Object.values(keys).map(({ key }) => key.keyId),
      canary,
    ],
  };
}

async function saveWorkflows(admin: Asker): Promise<void> {
  const definitions = [
    [workflow, { one: { topic } }],
    [`${canary}-guarded`, { ok: { type: "approval", input: { why: `${canary} reason` } } }],
    [`${canary}-list`, { each: { topic: `${canary}.list`, for_each: "[1, 2, 3]" } }],
    [`${canary}-fragile`, { break: { topic: `${canary}.fragile` } }],
  ] as const;
  for (const [id, steps] of definitions)
    await admin("POST", "/workflows", { id, name: `${canary} name`, steps });
  const queueing = { id: `${canary}-queueing`, concurrency: [{ max: 1, at_limit: "queue" }] };
  await admin("POST", "/workflows", { ...queueing, steps: { one: { topic: `${canary}.queueing` } } });
}

async function claim(worker: Asker, of: string): Promise<{ job_id: string; claim_token: string }> {
  const polled = await worker("POST", "/jobs/poll", {
    worker_id: `${canary}-worker`,
    topics: [of],
    poll_id: `${canary}-${of}`,
    wait_ms: 5_000,
    lease_ms: 600_000,
  });
  const [job] = polled.jobs as Array<{ job_id: string; claim_token: string }>;
  if (job === undefined) throw new Error(`no job of ${of}`);
  return { job_id: job.job_id, claim_token: job.claim_token };
}

async function makeLetter(by: { worker: Asker; operator: Asker; admin: Asker }): Promise<string> {
  await by.operator("POST", `/workflows/${canary}-fragile/runs`, {});
  const claimed = await claim(by.worker, `${canary}.fragile`);
  const error = { message: `${canary} broke`, code: canary };
  const result = { ...claimed, status: "failed", error };
  await by.worker("POST", "/jobs/results", { worker_id: `${canary}-worker`, results: [result] });
  return eventually("the letter is written", async () => {
    const { items } = await by.admin("GET", "/dlq");
    const [letter] = items as Array<{ id: string }>;
    return letter?.id;
  });
}
