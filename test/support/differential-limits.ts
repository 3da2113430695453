// Random sequences about rates, budgets and charges, played on two stores that share a clock: everything they answer must be equal, to the millisecond.
import fc from "fast-check";
import type { Amounts, AtBudget, Period, TenantBudget } from "../../src/domain/budgets.ts";
import { budgetSpec, workflowBudgetId } from "../../src/domain/budgets.ts";
import type { ClaimToken, JobId } from "../../src/domain/job.ts";
import type { TopicRate } from "../../src/domain/rates.ts";
import type { RunId } from "../../src/domain/run.ts";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import { meteredJob, perHour, ratedRun, runIdOf } from "../../src/testing/conformance/budget-steps.ts";
import { planOf } from "../../src/testing/conformance/gate-steps.ts";
import { call, type Harness, key } from "../../src/testing/conformance/harness.ts";
import { cancelOf, changeOf, deliver, resultOf } from "../../src/testing/conformance/run-steps.ts";

const kinds = [
  ...["set", "set", "save", "start", "start", "start", "start", "start", "start", "start", "start"],
  ...["claim", "claim", "claim", "claim", "claim", "claim", "claim", "claim", "claim", "claim"],
  ...["beat", "beat", "beat", "beat", "report", "report", "report", "report", "report", "report"],
  ...["late", "late", "void", "end", "cancel", "remove", "move", "sweep", "sweep", "pass", "pass"],
] as const;

/** What a command means depends on what it finds: numbers choose among it. */
type LimitCommand = { readonly kind: (typeof kinds)[number]; readonly picks: readonly number[] };

const picks = fc.noBias(fc.array(fc.nat({ max: 1_000 }), { minLength: 8, maxLength: 8 }));
const some = fc.array(fc.record({ kind: fc.constantFrom(...kinds), picks }), { minLength: 50, maxLength: 80 });

/** They begin with settings of both, and some runs. */
export const limitSequences: fc.Arbitrary<readonly LimitCommand[]> = fc
  .tuple(picks, picks, fc.array(picks, { minLength: 3, maxLength: 3 }), some)
  .map(([ofTenant, ofWorkflow, ofRuns, others]) => [
    { kind: "set", picks: ofTenant },
    { kind: "save", picks: ofWorkflow },
    ...ofRuns.map((each) => ({ kind: "start", picks: each }) as const),
    ...others,
  ]);

/** What a player knows of its store: the same on both, as long as they answer the same. */
type Known = { readonly runs: RunId[]; readonly jobs: JobId[]; readonly tokens: Map<JobId, ClaimToken[]> };

export type Player = { readonly harness: Harness; readonly known: Known; pass(ms: number): Promise<void> };

export function playerOf(harness: Harness, pass: (ms: number) => Promise<void>): Player {
  return { harness, known: { runs: [], jobs: [], tokens: new Map() }, pass };
}

/** What the store answers, and all that it shows afterwards. */
export async function play(player: Player, command: LimitCommand): Promise<string> {
  const answer = await actions[command.kind](player, command.picks).catch((error: unknown) => String(error));
  return JSON.stringify(inOrder({ answer, ...(await picture(player)) }), undefined, 1);
}

/** The order of fields says nothing, nor does that in which a sweep names things. */
function inOrder(value: unknown, isOfSweep = false): unknown {
  if (Array.isArray(value)) {
    const all = value.map((each) => inOrder(each));
    return isOfSweep ? all.map((each) => JSON.stringify(each)).sort() : all;
  }
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).map(([name, each]) => [name, inOrder(each, "repairs" in value)] as const);
  return Object.fromEntries(fields.sort(([one], [other]) => (one < other ? -1 : 1)));
}

async function picture({ harness: { store, tenant }, known }: Player) {
  const page = { tenant, after: "", limit: 1_000 };
  return {
    ledgers: await store.listLedgers(page, call),
    gates: await store.listGates(page, call),
    runs: await store.listRuns({ tenant, limit: 100 }, call),
    ready: await store.listReadyJobs({ tenant, topic: "shell", limit: 100 }, call),
    counted: await store.countJobs({ tenant, topics: ["shell", "a b"], pools: ["default"] }, call),
    used: await store.countUsage({ tenant }, call),
    events: await store.readEvents({ tenant, after: 0, limit: 1_000 }, call),
    jobs: await Promise.all(known.jobs.map((jobId) => store.getJob({ tenant, jobId }, call))),
  };
}

type Picks = readonly number[];

function chosen<Value>(values: readonly Value[], pick = 0): Value {
  const value = values[pick % values.length];
  if (value === undefined && values.length === 0) throw new Error("nothing to choose from");
  return value as Value;
}

const atLimits: readonly AtBudget[] = ["reject", "hold", "stop"];
const periods: readonly Period[] = ["hour", "day", "week", "month"];
const workflowSpec = budgetSpec("spend", "usd", "day");

const amounts = (usd = 0, tokens = 0): Amounts => ({
  ...(usd % 4 === 0 ? {} : { usd: (usd % 7) * 1_000_000 + usd }),
  ...(tokens % 3 === 0 ? {} : { tokens: (tokens % 5) * 900_000 }),
});

function settingsFor([which = 0, first, second, third, fourth]: Picks): TenantSettings {
  const has = (bit: number) => (which & bit) !== 0;
  const rates: TopicRate[] = [
    ...(has(1) ? [{ limit: 1 + ((first ?? 0) % 4), perMs: 10_000, burst: 1 + ((second ?? 0) % 3) }] : []),
    ...(has(2) ? [{ limit: 5, perMs: 60_000, burst: 1 + ((first ?? 0) % 6), unit: "tokens" }] : []),
  ];
  const budget: TenantBudget = {
    ...{ unit: "usd", amount: (1 + ((third ?? 0) % 12)) * 1_000_000, per: chosen(periods, fourth) },
    atLimit: chosen(atLimits, second),
  };
  return {
    ...(has(4) ? { maxConcurrentRuns: 1 + ((first ?? 0) % 3) } : {}),
    ...(has(8) ? { budgets: { all: budget } } : {}),
    ...(rates.length === 0 ? {} : { topicRates: { [has(16) ? "shell" : "a b"]: rates } }),
    ...((first ?? 0) % 31 === 0 ? { stopped: true } : {}),
    ...(has(32) && has(64) ? { topics: { shell: { maxRunning: 2 } } } : {}),
  };
}

type Action = (player: Player, picks: Picks) => Promise<unknown>;

async function start({ harness, known }: Player, picks: Picks): Promise<unknown> {
  const [which = 0, limit = 0, usd = 0, tokens, at, deadline, born, twice = 0] = picks;
  const has = (bit: number) => (which & bit) !== 0;
  const atLimit = has(1) ? "queue" : "reject";
  const rates = [
    ...(has(2) ? [perHour(1 + (limit % 5), { perMs: 60_000, burst: 1 + (limit % 2), atLimit })] : []),
    ...(has(4) ? [perHour(2, { of: "deploy", perMs: 30_000, atLimit: "queue" })] : []),
  ];
  const payer = { budget: workflowBudgetId("deploy", workflowSpec, has(8) ? "-" : "0".repeat(32)) };
  const budgets = has(16) ? [{ ...payer, atLimit: chosen(atLimits, at) }] : [];
  const isPlanned = has(32) && has(256);
  const runId = harness.runId();
  const jobs = [0, 1].map((index) =>
    meteredJob(runId, index, {
      topic: chosen(["shell", "a b"], usd + index),
      ...(has(64) ? { estimate: amounts(usd + index, tokens), budgets } : {}),
      ...((born ?? 0) % 3 === 0 ? { claim: harness.claim(120_000) } : {}),
    }),
  );
  const deadlineMs = chosen([20_000, 90_000, 600_000], deadline);
  const plan = planOf([], { deadlineMs, queueMax: 3 });
  const run = ratedRun(harness, rates, {
    ...{ runId, budgets, deadlineMs, start: isPlanned ? "inbox" : "applied" },
    ...(has(128) ? { key: key(`k${limit % 4}`, `r${limit % 4}`) } : {}),
    change: isPlanned ? { status: "pending" } : { status: "running", jobs },
  });
  const { gates: _gates, ...plain } = run;
  const asked = isPlanned ? { ...run, gates: plan } : plain;
  const answer = await harness.store.admit({ tenant: harness.tenant, run: asked }, call);
  if (answer.kind === "admitted" || answer.kind === "queued") {
    known.runs.push(runId);
    if (!isPlanned) known.jobs.push(...jobs.map(({ jobId }) => jobId));
    for (const { jobId, claim } of jobs) {
      if (claim !== undefined) known.tokens.set(jobId, [claim.token]);
    }
  }
  if (twice % 3 !== 0) return answer;
  return [answer, await harness.store.admit({ tenant: harness.tenant, run: asked }, call)];
}

async function claim({ harness, known }: Player, [pick = 0, other = 0]: Picks): Promise<unknown> {
  const claims = [pick, other].map((each) => {
    const jobId = chosen(known.jobs, each);
    const terms = harness.claim(30_000 + (other % 5) * 60_000);
    known.tokens.set(jobId, [...(known.tokens.get(jobId) ?? []), terms.token]);
    return { jobId, terms };
  });
  return harness.store.claimJobs({ tenant: harness.tenant, claims }, call);
}

/** A token that was used for the job, most of the time the last one that may hold it. */
async function holderOf({ harness, known }: Player, pick: number, back: number) {
  const jobId = chosen(known.jobs, pick);
  const { job } = (await harness.store.getJob({ tenant: harness.tenant, jobId }, call)) as {
    job?: { claim?: { token: ClaimToken } };
  };
  const tokens = known.tokens.get(jobId) ?? [];
  const token = back % 4 === 0 || job?.claim === undefined ? chosen(tokens, back) : job.claim.token;
  return { jobId, token };
}

async function beat(player: Player, [pick = 0, usd, tokens, twice = 0, back = 1]: Picks): Promise<unknown> {
  const { harness } = player;
  const holder = await holderOf(player, pick, back);
  const one = { ...holder, leaseMs: 90_000, usage: amounts(usd, tokens) };
  const other = { ...holder, leaseMs: 80_000, ...(twice % 2 === 0 ? { usage: amounts(tokens, usd) } : {}) };
  const beats = twice % 3 === 0 ? [one, other] : [one];
  return harness.store.heartbeatJobs({ tenant: harness.tenant, beats }, call);
}

async function report(player: Player, picks: Picks): Promise<unknown> {
  const { harness } = player;
  const [pick = 0, usd = 0, tokens, how = 0, proposes = 0, back = 1, twice = 0] = picks;
  const { jobId, token } = await holderOf(player, pick, back);
  const runId = runIdOf(jobId);
  const used = usd % 3 === 0 ? {} : { usage: amounts(usd, tokens) };
  const outcome = chosen(["succeeded", "failed", "handed_back"] as const, how);
  const entry = resultOf(harness, { jobId, token }, { ...used, outcome });
  const loaded = await harness.store.loadRun({ tenant: harness.tenant, runId, records: [] }, call);
  const version = loaded.kind === "run" ? loaded.header.version : 0;
  const next = meteredJob(runId, 5 + version, { estimate: amounts(tokens, usd), claim: harness.claim() });
  const status = proposes % 5 === 0 ? "succeeded" : "running";
  const voidJobs = player.known.jobs.filter((each) => runIdOf(each) === runId);
  const change = changeOf(status === "running" ? { jobs: [next] } : { status, voidJobs });
  const proposal = { expectedVersion: version, commitId: harness.id("commit"), change };
  const options = proposes % 2 === 0 ? {} : { proposal };
  const answer = await deliver(harness, runId, entry, options);
  if (answer.kind === "applied" && status === "running") player.known.jobs.push(next.jobId);
  return twice % 4 === 0 ? [answer, await deliver(harness, runId, entry, options)] : answer;
}

/** Late enough for a sweep after the last one: what was due then differs, since levels expire by themselves on Redis. */
const sweep: Action = async ({ harness: { store, partition }, pass }) => {
  await pass(2);
  return store.sweep({ partition }, call);
};

const spans = [
  ...[1, 7, 500, 500, 1_000, 1_000, 5_000, 5_000, 20_000, 20_000, 60_000, 61_000],
  ...[3_600_000, 86_400_000, 31 * 86_400_000],
];

const actions: { readonly [Kind in LimitCommand["kind"]]: Action } = {
  set: async ({ harness }, picks) => harness.set(settingsFor(picks)),
  async save({ harness: { store, tenant, ...harness } }, [amount = 0, gate = 0]) {
    const limits = {
      ...(amount % 5 === 0 ? {} : { [`budget.${workflowSpec}`]: (amount % 9) * 1_000_000 }),
      ...(gate % 2 === 0 ? {} : { "-": 1 + (gate % 3) }),
    };
    const document = { tenant, collection: "workflow", id: "deploy", body: "{}" } as const;
    if (amount % 13 === 0) return store.removeDocument({ ...document, actor: "tester" }, call);
    const changeId = `${harness.constructor.name}${amount}x${gate}`;
    return store.putDocument({ ...document, changeId, actor: "tester", limits }, call);
  },
  start,
  claim,
  beat,
  report,
  late: (player, picks) => report(player, [...picks.slice(0, 5), 4, 1]),
  void: async ({ harness, known }, [pick]) => {
    const jobId = chosen(known.jobs, pick);
    return harness.commit(runIdOf(jobId), { voidJobs: [jobId] });
  },
  end: async ({ harness, known }, [pick, which = 0]) => {
    const runId = chosen(known.runs, pick);
    const voidJobs = known.jobs.filter((jobId) => runIdOf(jobId) === runId);
    return harness.commit(runId, { status: "failed", ...(which % 4 === 0 ? {} : { voidJobs }) });
  },
  cancel: async ({ harness, known }, [pick]) =>
    deliver(harness, chosen(known.runs, pick), cancelOf(harness), { whenBusy: "refuse" }),
  remove: async ({ harness: { store, tenant }, known }, [pick]) =>
    store.deleteRun({ tenant, runId: chosen(known.runs, pick), actor: "tester" }, call),
  move: async ({ harness: { store, tenant }, known }, [pick]) =>
    store.moveQueued({ tenant, runId: chosen(known.runs, pick), to: "head", actor: "ops" }, call),
  sweep,
  pass: async (player, [span]) => {
    await player.pass(chosen(spans, span));
    return sweep(player, []);
  },
};
