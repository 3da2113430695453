// What a fuzzing client has learnt: ids, tokens and hashes that exist, so that its requests reach further than the first check.
import type { SeededRandom } from "../../src/testing/seeded-random.ts";

export type Kind =
  | ("workflow" | "run" | "step" | "job" | "approval" | "letter" | "tenant" | "apiKey" | "idempotencyKey")
  | ("pool" | "topic" | "resource" | "cursor" | "hash" | "worker" | "canary" | "gate")
  /** Runs of the workflow "simple", and of one whose step is a list. */
  | ("simpleRun" | "listRun");

export type Claim = { readonly job_id: string; readonly claim_token: string; readonly worker_id: string };
export type Grant = { readonly resource: string; readonly token: string; readonly fence: number };

export type Knowledge = {
  learn(kind: Kind, value: string): void;
  recall(kind: Kind, random: SeededRandom): string | undefined;
  readonly claims: Claim[];
  readonly grants: Grant[];
};

/** Old ones are mostly gone: only the latest are remembered. */
const rememberedMax = 40;
/** And of those mostly the newest: what was decided, ended or given back has little more to say. */
const latestMax = 6;

export function createKnowledge(): Knowledge {
  const values = new Map<Kind, string[]>();
  return {
    learn(kind, value) {
      const known = values.get(kind) ?? [];
      values.set(kind, known);
      if (known.includes(value)) return;
      known.push(value);
      if (known.length > rememberedMax) known.shift();
    },
    recall(kind, random) {
      const known = values.get(kind) ?? [];
      const latest = random.chance(0.7) ? known.slice(-latestMax) : known;
      return latest.length === 0 ? undefined : random.pick(latest);
    },
    claims: [],
    grants: [],
  };
}

/** What a part of a path in braces names, by the part before it. A new route with another word has to be added here. */
const kindsBySegment: Readonly<Record<string, Kind>> = {
  workflows: "workflow",
  runs: "run",
  "workflow-runs": "run",
  steps: "step",
  jobs: "job",
  pools: "pool",
  topics: "topic",
  approvals: "approval",
  gates: "gate",
  dlq: "letter",
  tenants: "tenant",
  keys: "apiKey",
  "idempotency-keys": "idempotencyKey",
  canaries: "canary",
};

export function kindOfParameter(path: string, name: string): Kind {
  const segments = path.split("/");
  const segment = segments[segments.indexOf(`{${name}}`) - 1] ?? "";
  const kind = kindsBySegment[segment];
  if (kind === undefined) throw new Error(`nobody said what {${name}} of ${path} names`);
  return kind;
}

/** What a field of a body or a query names. */
export const kindsByField: Readonly<Record<string, Kind>> = {
  worker_id: "worker",
  topics: "topic",
  topic: "topic",
  pool: "pool",
  job_id: "job",
  from_step: "step",
  resource: "resource",
  workflow_id: "workflow",
  tenant: "tenant",
  cursor: "cursor",
  hash: "hash",
};

/** Learns from an answer of 2xx. */
export function learnFrom(knowledge: Knowledge, operation: string, answer: unknown): void {
  if (operation === "createKey") learnNamed(knowledge, { id: "apiKey" }, answer);
  if (operation === "createTenant") learnNamed(knowledge, { id: "tenant" }, answer);
  if (operation === "startCanary") learnNamed(knowledge, { id: "canary" }, answer);
  if (operation === "saveWorkflow") learnNamed(knowledge, { id: "workflow" }, answer);
  if (/^list(DeadLetters|DeadLetterPage)$/.test(operation)) {
    learnNamed(knowledge, { id: "letter" }, answer);
  }
  if (operation === "listApprovals") learnNamed(knowledge, { job_id: "approval", hash: "hash" }, answer);
  else learnNamed(knowledge, { job_id: "job" }, answer);
  learnNamed(knowledge, { run_id: "run", next_cursor: "cursor" }, answer);
  for (const claim of found(answer, "claim_token")) {
    remember(knowledge.claims, { ...(claim as Claim), worker_id: "w-fuzz" });
  }
  for (const grant of found(answer, "token")) remember(knowledge.grants, grant as Grant);
}

function remember<Item>(items: Item[], item: Item): void {
  items.push(item);
  if (items.length > rememberedMax) items.shift();
}

function learnNamed(knowledge: Knowledge, kinds: Readonly<Record<string, Kind>>, answer: unknown): void {
  for (const [name, kind] of Object.entries(kinds)) {
    for (const holder of found(answer, name)) {
      const value = holder[name];
      if (typeof value === "string") knowledge.learn(kind, value);
    }
  }
}

/** Every object in the answer that has a field of this name, to a depth that lists reach. */
function found(value: unknown, name: string, depth = 3): Array<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || depth === 0) return [];
  const here = Object.hasOwn(value, name) ? [value as Record<string, unknown>] : [];
  return [...here, ...Object.values(value).flatMap((part) => found(part, name, depth - 1))];
}
