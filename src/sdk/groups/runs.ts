// Workflows saved and checked; runs started, watched, explained, cancelled and done again; events by page or as they happen.
import type { Line } from "../call.ts";
import type { Caller } from "../caller.ts";
import type { Common, Query, RetryLimits, Success } from "../contract.ts";
import {
  type Followed,
  type FollowOptions,
  followRun,
  followTenant,
  type TenantEvent,
  type TimelineEvent,
} from "../follow.ts";
import { type Run, type WaitOptions, waitForRun } from "../wait-for-run.ts";
import { apart, type Listing, listing } from "./care.ts";

/** An object as JSON, a text as YAML. What `defineWorkflow` gives is an object, too. */
export type Definition = object | string;

export type Workflow = Success<"getWorkflow">;

export type Workflows = {
  /** Creates it, or replaces the one with the same id. */
  save(definition: Definition, options?: Common): Promise<Success<"saveWorkflow">>;
  /** All problems at once, with their places; nothing is saved. */
  validate(definition: Definition, options?: Common): Promise<Success<"validateWorkflow">>;
  get(id: string, options?: Common): Promise<Workflow>;
  list(options?: Common & { readonly limit?: number | undefined }): Listing<Workflow>;
  /** Runs that were started go on with the definition they have. */
  remove(id: string, options?: Common): Promise<void>;
};

export function workflowsOf(caller: Caller): Workflows {
  return {
    save: (definition, options) => caller.call("saveWorkflow", { ...bodyOf(definition), ...options }),
    validate: (definition, options) => caller.call("validateWorkflow", { ...bodyOf(definition), ...options }),
    get: (id, options) => caller.call("getWorkflow", { params: { id }, ...options }),
    list: ({ limit, ...options } = {}) =>
      listing((cursor) => caller.call("listWorkflows", { query: pageOf(limit, cursor), ...options })),
    remove: async (id, options) => {
      await caller.call("removeWorkflow", { params: { id }, ...options });
    },
  };
}

function bodyOf(definition: Definition) {
  if (typeof definition === "string") return { body: definition, mediaType: "application/yaml" };
  // What is sent is what JSON makes of it.
  return { body: definition as Record<string, never> };
}

function pageOf(limit: number | undefined, cursor: string | undefined) {
  return { ...(limit === undefined ? {} : { limit }), ...(cursor === undefined ? {} : { cursor }) };
}

export type RunSummary = Success<"listRuns">["items"][number];
export type Step = Run["steps"][string];
export type Explanation = Success<"explainRun">;
type TimelineRow = Success<"readTimeline">["items"][number];

type Start = Success<"startRun">;
/**
 * `replayed`: the key was used before, and this is the run that it started. One that is `queued` waits for a place at a gate and
 * begins by itself; `runs.wait` waits for that, too.
 */
export type StartedRun = Extract<Start, { run_id: string }> & { readonly replayed: boolean };
export type DryRun = Success<"dryRunWorkflow">;
type RerunPlan = Extract<Success<"rerunRun">, { dry_run: true }>;

export type StartOptions = Common & {
  /** Names what is asked for: with the same key there is one run, however often it is asked. Made per call otherwise. */
  readonly idempotencyKey?: string | undefined;
  /** W3C trace context of the caller: the run and its jobs become part of that trace, and its workers receive it. */
  readonly traceparent?: string | undefined;
  readonly retry?: Partial<RetryLimits> | undefined;
  /** Instead of the workflow's, 0 to 9: where runs wait for a place, the highest go first. */
  readonly priority?: number | undefined;
};

/** A workflow by its id, or what `defineWorkflow` made, which types the input. */
type WorkflowOf<Input> = { readonly id: string; readonly inputType?: Input };

export type Runs = {
  start<Input extends object>(
    workflow: string | WorkflowOf<Input>,
    input: NoInfer<Input>,
    options?: StartOptions,
  ): Promise<StartedRun>;
  /** Plays the workflow through without starting anything. */
  dryRun(
    workflow: string | { readonly id: string },
    play?: { readonly input?: object; readonly outputs?: Readonly<Record<string, unknown>> },
    options?: Common,
  ): Promise<DryRun>;
  get(runId: string, options?: Common): Promise<Run>;
  list(options?: Common & Omit<Query<"listRuns">, "cursor">): Listing<RunSummary>;
  cancel(runId: string, options?: Common & { readonly reason?: string | undefined }): Promise<void>;
  /** Why it does not move, or how it ended. */
  why(runId: string, options?: Common): Promise<Explanation>;
  /** A new run from one of the steps on, with what was done before it. */
  rerun(runId: string, options: StartOptions & { readonly fromStep: string }): Promise<StartedRun>;
  /** What `rerun` would keep and do again. */
  planRerun(runId: string, options: Common & { readonly fromStep: string }): Promise<RerunPlan>;
  timeline(runId: string, options?: Common & { readonly limit?: number | undefined }): Listing<TimelineRow>;
  /** The items of a for_each step. */
  items(
    runId: string,
    step: string,
    options?: Common & { readonly limit?: number | undefined },
  ): Listing<Step>;
  /** One that has not ended is cancelled first. */
  remove(runId: string, options?: Common): Promise<void>;
  /** Resolves when the run has ended, whichever way. */
  wait(runId: string, options?: WaitOptions): Promise<Run>;
};

export function runsOf(line: Line, caller: Caller): Runs {
  return {
    async start(workflow, input, options) {
      const { priority, ...others } = options ?? {};
      const answer = await caller.callWithResponse("startRun", {
        params: { id: idOf(workflow) },
        query: priority === undefined ? {} : { priority },
        body: input as Record<string, never>,
        ...traced(others),
      });
      return startedRun(answer);
    },
    dryRun: (workflow, { input, outputs } = {}, options) =>
      caller.call("dryRunWorkflow", {
        params: { id: idOf(workflow) },
        body: {
          ...(input && { input: input as Json }),
          ...(outputs && { outputs: outputs as Record<string, Json> }),
        },
        ...options,
      }),
    get: (id, options) => caller.call("getRun", { params: { id }, ...options }),
    list({ signal, headers, ...query } = {}) {
      return listing((cursor) =>
        caller.call("listRuns", {
          query: { ...query, ...(cursor === undefined ? {} : { cursor }) },
          signal,
          ...(headers && { headers }),
        }),
      );
    },
    async cancel(id, { reason, ...options } = {}) {
      const body = reason === undefined ? {} : { reason };
      await caller.call("cancelRun", { params: { id }, body, ...options });
    },
    why: (id, options) => caller.call("explainRun", { params: { id }, ...options }),
    async rerun(id, { fromStep, priority, ...options }) {
      const body = { from_step: fromStep, ...(priority === undefined ? {} : { priority }) };
      const asked = { params: { id }, body, ...traced(options) };
      return startedRun(await caller.callWithResponse("rerunRun", asked));
    },
    async planRerun(id, { fromStep, ...options }) {
      const body = { from_step: fromStep, dry_run: true };
      return (await caller.call("rerunRun", { params: { id }, body, ...options })) as RerunPlan;
    },
    timeline: (id, { limit, ...options } = {}) =>
      listing((cursor) =>
        caller.call("readTimeline", { params: { id }, query: pageOf(limit, cursor), ...options }),
      ),
    items: (id, step_id, { limit, ...options } = {}) =>
      listing((cursor) =>
        caller.call("listItems", { params: { id, step_id }, query: pageOf(limit, cursor), ...options }),
      ),
    async remove(id, options) {
      await caller.call("deleteRun", { params: { id }, ...options });
    },
    wait: (runId, options) => waitForRun(line, caller, runId, options),
  };
}

type Json = NonNullable<Step["output"]>;

function idOf(workflow: string | { readonly id: string }): string {
  return typeof workflow === "string" ? workflow : workflow.id;
}

/** The header takes the place of one that was given among the others. */
function traced({ traceparent, headers, ...options }: Omit<StartOptions, "priority">) {
  if (traceparent === undefined) return headers === undefined ? options : { ...options, headers };
  return { ...options, headers: { ...headers, traceparent } };
}

function startedRun({ headers, body }: { readonly headers: Headers; readonly body: unknown }): StartedRun {
  const replayed = headers.get("idempotent-replayed") === "true";
  return { ...(body as Omit<StartedRun, "replayed">), replayed };
}

export type Events = {
  /** One page; `next_cursor` is there also on the last one: ask with it again later. */
  page(options?: Common & Query<"readEvents">): Promise<Success<"readEvents">>;
  /**
   * As they happen, over as many connections as it takes: nothing twice, nothing left out, and an explicit `reset` where rows
   * are gone. With `run`, the timeline of that run, to its end.
   */
  follow(options: FollowOptions & { readonly run: string }): AsyncIterable<Followed<TimelineEvent>>;
  follow(options?: FollowOptions & { readonly run?: undefined }): AsyncIterable<Followed<TenantEvent>>;
};

export function eventsOf(line: Line, caller: Caller): Events {
  const follow = (options: FollowOptions & { readonly run?: string | undefined } = {}) =>
    options.run === undefined ? followTenant(line, options) : followRun(line, options.run, options);
  return {
    page(options) {
      const { query, ...rest } = apart(options);
      return caller.call("readEvents", { query, ...rest });
    },
    // Which of the two it is follows from the options.
    follow: follow as Events["follow"],
  };
}
