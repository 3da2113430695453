// Known mistakes about where workflows lead and the runs that they start, put in on purpose, with the operations that make them.
import { type Operations, operations } from "../../../src/adapters/operations/perform.ts";
import { type Context, orderedNumber } from "../../../src/adapters/operations/records.ts";
import { isTerminal, type RunChange } from "../../../src/domain/run.ts";
import type { RequestOf } from "../../../src/ports/store.ts";
import type { Swap } from "../planted-bug.ts";
import { mapping, over } from "./broken-records.ts";

/** The same mistake in a commit, and in one that was computed in advance. */
function inBoth(
  broken: (context: Context, runId: string, change: RunChange) => Context,
  mended: (change: RunChange) => RunChange = (change) => change,
): Operations {
  return {
    ...operations,
    commit: (context, request) => {
      const change = mended(request.change);
      return operations.commit(broken(context, request.runId, change), { ...request, change });
    },
    deliver: (context, request) => {
      if (request.proposal === undefined) return operations.deliver(context, request);
      const change = mended(request.proposal.change);
      const proposal = { ...request.proposal, change };
      return operations.deliver(broken(context, request.runId, change), { ...request, proposal });
    },
  };
}

/** The parent looks as if it had ended, so that nobody tells it anything. */
const endUnheard = inBoth((context, runId, change) => {
  if (!isTerminal(change.status) || change.children.length + change.cancelChildren.length > 0) return context;
  return mapping(
    context,
    "run",
    (value) => (value === undefined || value.runId === runId ? value : { ...value, status: "failed" }),
    (value) => value,
  );
});

const endMisreported = inBoth((context) =>
  mapping(
    context,
    "inbox",
    (value) => value,
    (value) => (value.kind === "child_ended" ? { ...value, status: "succeeded" } : value),
  ),
);

const childrenLeft = inBoth(
  (context) => context,
  (change) => ({ ...change, cancelChildren: [] }),
);

const childWithSlot: Operations = {
  ...operations,
  commit: (context, request: RequestOf<"commit">) => {
    const { tenant, change } = request;
    const given = new Set<string>(change.children.map(({ runId }) => runId));
    const giving = over(context, {
      put: (kind, scope, member, value) => {
        context.records.put(kind, scope, member, value);
        if (kind !== "run" || !given.delete(member)) return;
        const state = context.records.get("run", tenant, member);
        context.records.put("active", tenant, `${orderedNumber(state?.admittedAtMs ?? 0)} ${member}`, {});
      },
    });
    return operations.commit(giving, request);
  },
};

/** Every commit of a run begins its children anew, under other names. */
const startedAgain: Operations = {
  ...operations,
  commit: (context, request) => {
    const { change } = request;
    const twins = change.children.map((child) => ({
      ...child,
      runId: `${child.runId}b` as typeof child.runId,
    }));
    return operations.commit(context, {
      ...request,
      change: { ...change, children: [...change.children, ...twins] },
    });
  },
};

/** Nothing is inconsistent afterwards: only what was to be expected is not what came. */
const resultMadeFinal: Operations = {
  ...operations,
  deliver: (context, request) =>
    operations.deliver(
      mapping(
        context,
        "inbox",
        (value) => value,
        (value) =>
          value.kind === "result" && value.outcome === "failed_retryable"
            ? { ...value, outcome: "failed" }
            : value,
      ),
      request,
    ),
};

export const swappedChild: Readonly<Record<string, Swap>> = {
  child_end_unheard: {
    what: "a run that another waits for ends, and its parent is never told",
    caughtBy: ["children"],
    table: endUnheard,
  },
  child_end_misreported: {
    what: "a parent is told that its child has succeeded, whatever became of it",
    caughtBy: ["children"],
    table: endMisreported,
  },
  children_left: {
    what: "a run ends or gives up, and those that it has started go on",
    caughtBy: ["children"],
    table: childrenLeft,
  },
  child_with_slot: {
    what: "a run that another has started takes a slot of its own",
    caughtBy: ["INV-2", "INV-28"],
    table: childWithSlot,
  },
  child_started_again: {
    what: "a step starts two runs instead of one",
    caughtBy: ["children"],
    table: startedAgain,
  },
  result_made_final: {
    what: "a failure that may be tried again counts as the last",
    caughtBy: ["reference"],
    table: resultMadeFinal,
  },
};
