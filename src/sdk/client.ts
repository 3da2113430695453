// What programs begin with: `createClient`, every operation by name, and the usual ones grouped by what they are about.
import { type Caller, type ClientOptions, createCaller, lineOf } from "./caller.ts";
import type { Common, Success } from "./contract.ts";
import {
  type Approvals,
  type Audit,
  approvalsOf,
  auditOf,
  type Budgets,
  budgetsOf,
  type Canaries,
  canariesOf,
  type DeadLetters,
  deadLettersOf,
  type Jobs,
  jobsOf,
  type Keys,
  keysOf,
  type Locks,
  locksOf,
  type PolicyGroup,
  type Pools,
  policiesOf,
  poolsOf,
  type Queues,
  queuesOf,
  type Tenants,
  type Topics,
  tenantsOf,
  topicsOf,
} from "./groups/care.ts";
import { type Events, eventsOf, type Runs, runsOf, type Workflows, workflowsOf } from "./groups/runs.ts";
import { type Runtime, runtime as system } from "./runtime.ts";
import type { Run, WaitOptions } from "./wait-for-run.ts";

export type Client = Caller & {
  readonly workflows: Workflows;
  readonly runs: Runs;
  readonly approvals: Approvals;
  readonly locks: Locks;
  readonly deadLetters: DeadLetters;
  readonly tenants: Tenants;
  readonly keys: Keys;
  readonly events: Events;
  readonly audit: Audit;
  readonly jobs: Jobs;
  readonly pools: Pools;
  readonly topics: Topics;
  readonly queues: Queues;
  readonly budgets: Budgets;
  readonly policies: PolicyGroup;
  readonly canaries: Canaries;
  /** Who the key belongs to, and whether the store answers. */
  status(options?: Common): Promise<Success<"getStatus">>;
  /** Which run a start's idempotency key maps to. */
  lookUpKey(key: string, options?: Common): Promise<Success<"lookUpKey">>;
};

export function createClient(options: ClientOptions = {}): Client {
  return createClientIn(system, options);
}

/** With other clocks and randomness than the system's. */
export function createClientIn(runtime: Runtime, options: ClientOptions): Client {
  const line = lineOf(options, runtime);
  const caller = createCaller(line);
  return {
    ...caller,
    workflows: workflowsOf(caller),
    runs: runsOf(line, caller),
    approvals: approvalsOf(caller),
    locks: locksOf(caller),
    deadLetters: deadLettersOf(caller),
    tenants: tenantsOf(caller),
    keys: keysOf(caller),
    events: eventsOf(line, caller),
    audit: auditOf(caller),
    jobs: jobsOf(caller),
    pools: poolsOf(caller),
    topics: topicsOf(caller),
    queues: queuesOf(caller),
    budgets: budgetsOf(caller),
    policies: policiesOf(caller),
    canaries: canariesOf(caller),
    status: (given) => caller.call("getStatus", given),
    lookUpKey: (key, given) => caller.call("lookUpKey", { params: { key }, ...given }),
  };
}

/** The same as `client.runs.wait`. */
export function waitForRun(client: Client, runId: string, options?: WaitOptions): Promise<Run> {
  return client.runs.wait(runId, options);
}
