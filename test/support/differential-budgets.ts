// Plays random starts, claims, heartbeats and reports on several stores that share a clock: rates and budgets must do the same on all.
import fc from "fast-check";
import { type Amounts, type AtBudget, atBudgetChoices, type BudgetId } from "../../src/domain/budgets.ts";
import { namedGate, tenantGate } from "../../src/domain/gates.ts";
import type { JobOutcome } from "../../src/domain/inbox.ts";
import type { JobId } from "../../src/domain/job.ts";
import { tenantRateId, workflowRateId } from "../../src/domain/rates.ts";
import { isTerminal, type RunId } from "../../src/domain/run.ts";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import type { Store } from "../../src/ports/store.ts";
import { meteredJob, workflow } from "../../src/testing/conformance/budget-steps.ts";
import { planOf } from "../../src/testing/conformance/gate-steps.ts";
import { call, Harness, only } from "../../src/testing/conformance/harness.ts";
import { cancelOf, changeOf, resultOf } from "../../src/testing/conformance/run-steps.ts";
import type { SetClock } from "./set-clock.ts";

const usd = 1_000_000;

/** Half a unit now and then: rates count whole ones. */
const amount = fc.oneof(
  { weight: 5, arbitrary: fc.integer({ min: 0, max: 8 }).map((units) => units * usd) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 12 * usd }) },
);
const amounts: fc.Arbitrary<Amounts> = fc.record({ usd: amount, tokens: amount }, { requiredKeys: [] });
const maybe = <Value>(values: fc.Arbitrary<Value>) => fc.option(values, { nil: undefined, freq: 3 });
const atLimit = fc.constantFrom<AtBudget>(...atBudgetChoices);
const which = fc.nat({ max: 5 });

const commands = {
  pass: fc.record({ ms: fc.constantFrom(1, 7, 50, 99, 100, 101, 333, 1_000, 2_000, 3_600_000) }),
  start: fc.record({
    rates: fc.constantFrom(0, 1, 2, 2, 2, 3),
    queues: fc.constantFrom(true, true, false),
    deadlineMs: fc.constantFrom(100, 250, 10_000),
    gate: fc.boolean(),
    budget: maybe(atLimit),
    lock: fc.constantFrom(false, false, false, true),
  }),
  enqueue: fc.record({
    topic: fc.constantFrom("shell", "shell", "other"),
    estimates: fc.array(maybe(amounts), { minLength: 1, maxLength: 3 }),
    budget: maybe(atLimit),
    born: fc.constantFrom(false, false, true),
  }),
  claim: fc.record({ which, leaseMs: fc.constantFrom(300, 10_000_000, 10_000_000), many: fc.boolean() }),
  beat: fc.record({ which, usage: maybe(amounts) }),
  report: fc.record({
    which,
    usage: maybe(amounts),
    outcome: fc.constantFrom<JobOutcome>("succeeded", "succeeded", "failed", "handed_back"),
    late: fc.boolean(),
  }),
  callOff: fc.record({ which, ends: fc.boolean() }),
  cancel: fc.record({ which }),
  remove: fc.record({ which }),
  settings: fc.record({
    rates: fc.nat({ max: 7 }),
    budget: maybe(fc.constantFrom(0, 5 * usd, 10 * usd, 20 * usd)),
    atLimit,
    stopped: fc.constantFrom(false, false, false, false, true),
    active: fc.constantFrom(undefined, 1, 3),
  }),
  save: fc.record({ amount: maybe(fc.constantFrom(0, 5 * usd, 10 * usd, 20 * usd)) }),
  sweep: fc.record({}),
  look: fc.record({ which }),
};

type Commands = {
  readonly [Name in keyof typeof commands]: (typeof commands)[Name] extends fc.Arbitrary<infer Value>
    ? Value
    : never;
};
export type BudgetCommand = {
  [Name in keyof Commands]: { readonly name: Name } & Commands[Name];
}[keyof Commands];

const weights: { readonly [Name in keyof Commands]: number } = {
  ...{ pass: 12, start: 14, enqueue: 8, claim: 22, beat: 8, report: 14, callOff: 3, cancel: 2, remove: 1 },
  ...{ settings: 4, save: 3, sweep: 12, look: 8 },
};

const chosen = fc.oneof(
  ...Object.entries(commands).map(([name, options]) => ({
    weight: weights[name as keyof Commands],
    arbitrary: (options as fc.Arbitrary<object>).map((option) => ({ name, ...option }) as BudgetCommand),
  })),
);

const beginning: fc.Arbitrary<BudgetCommand> = commands.settings.map((option) => ({
  ...option,
  ...{ name: "settings", stopped: false, budget: option.budget ?? 10 * usd },
}));

/** They begin with settings, a workflow's budget, and jobs. */
export const budgetSequences: fc.Arbitrary<readonly BudgetCommand[]> = fc
  .tuple(
    beginning,
    commands.save.map((option) => ({ name: "save" as const, ...option })),
    commands.enqueue.map((option) => ({ name: "enqueue" as const, ...option })),
    fc.array(chosen, { minLength: 15, maxLength: 70, size: "max" }),
  )
  .map(([settings, save, jobs, others]) => [settings, save, jobs, ...others]);

type Known = {
  readonly jobId: JobId;
  readonly runId: RunId;
  readonly token: ReturnType<Harness["claim"]>["token"];
};

/** Of one store. Ids and tokens come from the harness, the same on all stores as long as the answers are. */
export class BudgetPlayer {
  readonly name: string;
  readonly #harness: Harness;
  readonly #repeats: boolean;
  readonly #jobs: JobId[] = [];
  readonly #claims: Known[] = [];
  readonly #runs: RunId[] = [];

  constructor(name: string, harness: Harness, repeats: boolean) {
    this.name = name;
    this.#harness = harness;
    this.#repeats = repeats;
  }

  async play(command: BudgetCommand): Promise<string> {
    return JSON.stringify(comparable(await this.#answer(command)));
  }

  async #answer(command: BudgetCommand): Promise<unknown> {
    switch (command.name) {
      case "pass":
        return "passed";
      case "start":
        return this.#start(command);
      case "enqueue":
        return this.#enqueue(command);
      case "claim":
        return this.#claim(command);
      case "beat":
        return this.#beat(command);
      case "report":
        return this.#report(command);
      case "callOff":
        return this.#callOff(command);
      case "cancel":
        return this.#cancel(command);
      case "remove":
        return this.#remove(command);
      case "settings":
        return this.#harness.set(settingsOf(command));
      case "save":
        return this.#save(command);
      case "sweep":
        return this.#sweep();
      case "look":
        return this.#look(command);
    }
  }

  /** What was sent twice has one effect. */
  async #send<Answer>(send: () => Promise<Answer>): Promise<Answer> {
    const answer = await send();
    if (this.#repeats) await send();
    return answer;
  }

  async #start({ rates, queues, deadlineMs, gate, budget, lock }: Commands["start"]) {
    const { store, tenant } = this.#harness;
    const atRate = queues ? "queue" : "reject";
    const all = [
      { rate: tenantRateId(1_000), limit: 4, perMs: 1_000, burst: 3, atLimit: "reject" },
      { rate: workflowRateId(workflow, 400), limit: 2, perMs: 400, burst: 1, atLimit: atRate },
    ] as const;
    const run = this.#harness.newRun({
      ...{ start: "inbox", rates: all.filter((_, index) => (rates & (1 << index)) !== 0) },
      gates: planOf(gate ? [[namedGate("crm"), "queue"]] : [[tenantGate, "queue"]], { deadlineMs }),
      ...(budget === undefined ? {} : { budgets: [ofWorkflow(budget)] }),
    });
    this.#runs.push(run.runId);
    if (!lock) return this.#send(() => store.admit({ tenant, run }, call));
    const guard = await this.#harness.acquire({ namespace: "admission", name: "" }, 60_000);
    const answer = await this.#send(() => store.createRun({ tenant, guard, run }, call));
    await this.#harness.release(guard);
    return answer;
  }

  async #enqueue({ topic, estimates, budget, born }: Commands["enqueue"]) {
    const { store, tenant } = this.#harness;
    const runId = this.#harness.runId();
    const jobs = estimates.map((estimate, index) => {
      const claim = this.#harness.claim();
      const paid = budget === undefined ? {} : { budgets: [ofWorkflow(budget)] };
      const metered = { topic, ...(estimate === undefined ? {} : { estimate }), ...paid };
      return meteredJob(runId, index, { ...metered, ...(born ? { claim } : {}) });
    });
    const run = this.#harness.newRun({ runId, change: { jobs, status: "running" } });
    const answer = await this.#send(() => store.admit({ tenant, run }, call));
    if (answer.kind !== "admitted") return answer;
    this.#runs.push(runId);
    for (const { jobId, claim } of jobs) {
      this.#jobs.push(jobId);
      if (claim !== undefined && answer.claims.some((each) => each.jobId === jobId))
        this.#claims.push({ jobId, runId, token: claim.token });
    }
    return answer;
  }

  async #claim({ which: from, leaseMs, many }: Commands["claim"]) {
    const { store, tenant } = this.#harness;
    const jobIds = this.#jobs.slice(-1 - from).slice(0, many ? 3 : 1);
    const claims = jobIds.map((jobId) => ({ jobId, terms: this.#harness.claim(leaseMs) }));
    const answer = await this.#send(() => store.claimJobs({ tenant, claims }, call));
    for (const [index, { jobId, terms }] of claims.entries()) {
      if (only(answer, "judged").answers[index]?.kind !== "claimed") continue;
      this.#claims.push({ jobId, runId: runIdOf(jobId), token: terms.token });
    }
    return answer;
  }

  async #beat({ which: index, usage }: Commands["beat"]) {
    const { store, tenant } = this.#harness;
    const beats = this.#claims
      .slice(-1 - index)
      .slice(0, 1)
      .map(({ jobId, token }) => ({
        ...{ jobId, token, leaseMs: 10_000_000 },
        ...(usage === undefined ? {} : { usage }),
      }));
    return this.#send(() => store.heartbeatJobs({ tenant, beats }, call));
  }

  async #report({ which: index, usage, outcome, late }: Commands["report"]) {
    const claim = late ? this.#claims[index] : this.#claims.at(-1 - index);
    if (claim === undefined) return "nobody";
    const entry = resultOf(this.#harness, claim, { outcome, ...(usage === undefined ? {} : { usage }) });
    return this.#deliver(claim.runId, entry);
  }

  /** Applied at once, so that nobody owns the run. */
  async #deliver(runId: RunId, entry: Parameters<Harness["store"]["deliver"]>[0]["entry"]) {
    const { store, tenant } = this.#harness;
    const loaded = await store.loadRun({ tenant, runId, records: [] }, call);
    const expectedVersion = loaded.kind === "run" ? loaded.header.version : 0;
    const proposal = { expectedVersion, commitId: this.#harness.id("commit"), change: changeOf() };
    const take = this.#harness.take(1);
    const request = { tenant, runId, entry, take, whenBusy: "append", records: [], proposal } as const;
    return this.#send(() => store.deliver(request, call));
  }

  async #callOff({ which: index, ends }: Commands["callOff"]) {
    const { store, tenant } = this.#harness;
    const jobId = this.#jobs.at(-1 - index);
    if (jobId === undefined) return "nobody";
    const runId = runIdOf(jobId);
    const loaded = await store.loadRun({ tenant, runId, records: [] }, call);
    if (loaded.kind !== "run" || isTerminal(loaded.header.status)) return "ended";
    const siblings = this.#jobs.filter((each) => runIdOf(each) === runId);
    const change = ends ? { voidJobs: siblings, status: "failed" as const } : { voidJobs: [jobId] };
    return this.#harness.commit(runId, change);
  }

  async #cancel({ which: index }: Commands["cancel"]) {
    const runId = this.#runs.at(-1 - index);
    return runId === undefined ? "nobody" : this.#deliver(runId, cancelOf(this.#harness));
  }

  async #remove({ which: index }: Commands["remove"]) {
    const { store, tenant } = this.#harness;
    const runId = this.#runs.at(-1 - index);
    if (runId === undefined) return "nobody";
    return store.deleteRun({ tenant, runId, actor: "ops" }, call);
  }

  async #save({ amount: set }: Commands["save"]) {
    const { store, tenant } = this.#harness;
    const limits = set === undefined ? {} : { "budget.spend~usd~hour": set };
    const document = { tenant, collection: "workflow", id: workflow, body: "{}", actor: "tester" } as const;
    const change = { ...document, changeId: this.#harness.id("change"), limits };
    return this.#send(() => store.putDocument(change, call));
  }

  async #sweep() {
    const { store, partition, tenant } = this.#harness;
    const { waiting, unclaimed, repairs, lostClaims, queueDeadlines } = only(
      await store.sweep({ partition }, call),
      "swept",
    );
    const own = (each: { readonly tenant: string }) => each.tenant === tenant;
    const found = [waiting, unclaimed, repairs].map((all) =>
      (all as typeof waiting).filter(own).map(textOf).sort(),
    );
    return [...found, lostClaims, queueDeadlines];
  }

  async #look({ which: index }: Commands["look"]) {
    const { store, tenant } = this.#harness;
    const jobId = this.#jobs.at(-1 - index);
    const runId = this.#runs.at(-1 - index);
    return [
      await store.listLedgers({ tenant, after: "", limit: 2 + index }, call),
      await store.listReadyJobs({ tenant, topic: "shell", limit: 100 }, call),
      await store.countUsage({ tenant }, call),
      await store.countJobs({ tenant, topics: ["shell", "other"], pools: ["default"] }, call),
      await store.readEvents({ tenant, after: 0, limit: 1_000 }, call),
      jobId === undefined ? "none" : await store.getJob({ tenant, jobId }, call),
      runId === undefined ? "none" : await store.loadRun({ tenant, runId, records: [] }, call),
    ];
  }
}

const ofWorkflow = (atBudget: AtBudget) => ({
  ...{ budget: `workflow.${workflow}.spend~usd~hour.-` as BudgetId, atLimit: atBudget },
});

/** The numbers of a rate stay the same: what has drained is forgotten at different times. */
function settingsOf({
  rates,
  budget,
  atLimit: atEnd,
  stopped,
  active,
}: Commands["settings"]): TenantSettings {
  const all = [
    { limit: 10, perMs: 1_000, burst: 3 },
    { limit: 10, perMs: 1_000, burst: 10, unit: "tokens" },
    { limit: 1, perMs: 1_000, burst: 4, unit: "usd" },
  ];
  const shell = all.filter((_, index) => (rates & (1 << index)) !== 0);
  return {
    gates: { crm: { max: 1 } },
    ...(active === undefined ? {} : { maxConcurrentRuns: active * 5 }),
    ...(stopped ? { stopped: true } : {}),
    ...(shell.length === 0 ? {} : { topicRates: { shell } }),
    ...(budget === undefined
      ? {}
      : { budgets: { all: { unit: "usd", amount: budget, per: "hour", atLimit: atEnd } } }),
  };
}

function runIdOf(jobId: JobId): RunId {
  return jobId.slice(0, jobId.indexOf(":")) as RunId;
}

function textOf(value: unknown): string {
  return JSON.stringify(comparable(value));
}

/** In one form, and without the numbers of grants, which are a store's own. */
function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).filter(([name]) => name !== "fence" && name !== "storeTimeMs");
  fields.sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(fields.map(([name, each]) => [name, comparable(each)]));
}

export type BudgetCandidate = { readonly name: string; readonly store: Store; readonly clock: SetClock };

/** Throws on the first difference. */
export async function compareBudgets(
  candidates: readonly BudgetCandidate[],
  sequence: readonly BudgetCommand[],
  unique: string,
): Promise<void> {
  const players = candidates.map(
    ({ name, store, clock }, index) => new BudgetPlayer(name, new Harness(store, clock, unique), index > 0),
  );
  for (const [step, command] of sequence.entries()) {
    if (command.name === "pass") for (const { clock } of candidates) await clock.pass(command.ms);
    const answers: string[] = [];
    for (const player of players) answers.push(await player.play(command));
    const different = answers.findIndex((answer) => answer !== answers[0]);
    if (different === -1) continue;
    const said = `${players[0]?.name} ${answers[0]}\n${players[different]?.name} ${answers[different]}`;
    throw new Error(`step ${step}, ${JSON.stringify(command)}:\n${said}`);
  }
}
