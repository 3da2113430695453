// Known mistakes about gates and the runs that wait at them, put in on purpose.
import { type Operations, operations } from "../../../src/adapters/operations/perform.ts";
import type { Context, RecordKind, Records } from "../../../src/adapters/operations/records.ts";
import type { WorkflowLimits } from "../../../src/domain/gates.ts";
import type { RunId } from "../../../src/domain/run.ts";
import type { TenantId, TenantSettings } from "../../../src/domain/tenant.ts";
import type { NewRun } from "../../../src/ports/admission-operations.ts";
import type { Store } from "../../../src/ports/store.ts";
import { crowdedDay, gatedDay } from "../../simulation/large-swarm.ts";
import type { Swarm } from "../../simulation/swarm.ts";
import type { Swap } from "../planted-bug.ts";
import { mapping, over } from "./broken-records.ts";

/** Authors who change limits while runs wait for them. */
function savedOften(swarm: Swarm): Swarm {
  const { workflows } = swarm;
  return workflows === undefined ? swarm : { ...swarm, workflows: { ...workflows, authors: 2 } };
}

/** What may start, end or move runs at gates. */
function inAll(view: (context: Context) => Context): Operations {
  return {
    ...operations,
    admit: (context, request) => operations.admit(view(context), request),
    deliver: (context, request) => operations.deliver(view(context), request),
    commit: (context, request) => operations.commit(view(context), request),
    sweep: (context, request) => operations.sweep(view(context), request),
    handOn: (context, request) => operations.handOn(view(context), request),
    moveQueued: (context, request) => operations.moveQueued(view(context), request),
  };
}

/** Settings as somebody misreads them; what is written back has them as they are. */
function readingSettings(context: Context, read: (settings: TenantSettings) => TenantSettings): Context {
  const hidden = new Map<string, TenantSettings>();
  return mapping(
    context,
    "tenant",
    (value, member) => {
      if (value === undefined) return undefined;
      hidden.set(member, value.settings);
      return { ...value, settings: read(value.settings) };
    },
    (value) => ({ ...value, settings: hidden.get("record") ?? value.settings }),
  );
}

function withoutNamedLimits({ gates: _gates, ...rest }: TenantSettings): TenantSettings {
  return rest;
}

function notStopped({ stopped: _stopped, ...rest }: TenantSettings): TenantSettings {
  return rest;
}

/** Puts of a kind whose member has this text in it do not happen. */
function withoutPuts(context: Context, dropped: RecordKind, part = ""): Context {
  const { records } = context;
  const put: Records["put"] = (kind, scope, member, value) => {
    if (kind !== dropped || !member.includes(part)) records.put(kind, scope, member, value);
  };
  return over(context, { put });
}

function withoutErases(context: Context, kept: readonly RecordKind[]): Context {
  const { records } = context;
  return over(context, {
    erase: (kind, scope, member) => {
      if (!kept.includes(kind)) records.erase(kind, scope, member);
    },
  });
}

const handOverOutside: Operations = {
  ...operations,
  commit: (context, request) => {
    const { records } = context;
    const size: Records["size"] = (kind, scope) => (kind === "gateQueue" ? 0 : records.size(kind, scope));
    return operations.commit(over(context, { size }), request);
  },
};

/** Every key has the same tag for ever: the key with most runs is served most. */
function shareForgotten(context: Context): Context {
  const { records } = context;
  const none = "0".padStart(16, "0");
  const untagged = (kind: RecordKind, member: string) =>
    kind === "line" ? `${none}${member.slice(16)}` : member;
  const put: Records["put"] = (kind, scope, member, value) => {
    const stored = kind === "lineKey" ? { ...value, tag: 0 } : value;
    records.put(kind, scope, untagged(kind, member), stored);
  };
  return over(context, {
    put,
    erase: (kind, scope, member) => records.erase(kind, scope, untagged(kind, member)),
  });
}

/** After a start that waits, what it should not have, or should. */
function afterQueued(change: (context: Context, tenant: TenantId, runId: RunId) => void): Operations {
  return {
    ...operations,
    admit: (context, request) => {
      const outcome = operations.admit(context, request);
      if (outcome.kind === "queued") change(context, request.tenant, outcome.runId);
      return outcome;
    },
  };
}

const placeNotHeld = afterQueued(({ records }, tenant, runId) => {
  const { gates } = records.get("run", tenant, runId) ?? {};
  for (const { gate } of gates?.gates.slice(0, gates.held) ?? []) {
    const member = `${String(gates?.askedAtMs).padStart(16, "0")} ${runId}`;
    records.erase("place", `${tenant}/${gate}`, member);
  }
});

const queuedIsActive = afterQueued(({ records }, tenant, runId) => {
  const { admittedAtMs } = records.get("run", tenant, runId) ?? {};
  records.put("active", tenant, `${String(admittedAtMs).padStart(16, "0")} ${runId}`, {});
});

const wokenForgotten: Operations = {
  ...operations,
  commit: (context, request) => {
    const { records } = context;
    const put: Records["put"] = (kind, scope, member, value) => {
      const isOther = kind === "due" && member.includes(" attention ") && !member.endsWith(request.runId);
      if (!isOther) records.put(kind, scope, member, value);
    };
    return operations.commit(over(context, { put }), request);
  },
};

/** The limits that each workflow had before it was saved last, by the records of one world. */
const earlierLimits = new WeakMap<Records, Map<string, WorkflowLimits | undefined>>();

function earlierOf({ records }: Context): Map<string, WorkflowLimits | undefined> {
  const known = earlierLimits.get(records) ?? new Map<string, WorkflowLimits | undefined>();
  earlierLimits.set(records, known);
  return known;
}

function ofEarlierRevision(context: Context): Context {
  const earlier = earlierOf(context);
  return mapping(
    context,
    "document",
    (value, member) => {
      const limits = earlier.get(member);
      return value?.limits === undefined || limits === undefined ? value : { ...value, limits };
    },
    (value) => value,
  );
}

const earlierRevision: Operations = {
  ...inAll(ofEarlierRevision),
  putDocument: (context, request) => {
    const { tenant, collection, id } = request;
    const before = context.records.get("document", `${tenant}/${collection}`, id);
    const outcome = operations.putDocument(context, request);
    const isNew = outcome.kind === "saved" && outcome.revision !== before?.revision;
    if (collection === "workflow" && isNew) earlierOf(context).set(id, before?.limits);
    return outcome;
  },
};

const cancelledInLine: Operations = {
  ...operations,
  deliver: (context, request) =>
    request.entry.kind === "cancel"
      ? operations.deliver(withoutErases(context, ["queuedRun", "line", "lineKey"]), request)
      : operations.deliver(context, request),
};

const limitsUnnoticed: Operations = {
  ...operations,
  setTenant: (context, request) => operations.setTenant(withoutPuts(context, "due", " gates "), request),
};

const workflowUnnoticed: Operations = {
  ...operations,
  putDocument: (context, request) => operations.putDocument(withoutPuts(context, "due", " gates "), request),
};

const lookedAtOnce: Operations = {
  ...operations,
  sweep: (context, request) => operations.sweep(withoutPuts(context, "due", " gate "), request),
};

/** As they were written, so that two workflows may take the same places in opposite orders. */
function inTheOtherOrder(store: Store): Store {
  const asWritten = (run: NewRun): NewRun => {
    const { gates } = run;
    if (gates === undefined || run.workflow !== "second") return run;
    const own = gates.gates.slice(0, -1).reverse();
    return { ...run, gates: { ...gates, gates: [...own, ...gates.gates.slice(-1)] } };
  };
  return {
    ...store,
    admit: (request, options) => store.admit({ ...request, run: asWritten(request.run) }, options),
  };
}

/** It begins with nothing to do: the run may wait. */
const beginsWhileWaiting: Operations = {
  ...operations,
  admit: (context, request) => {
    const outcome = operations.admit(context, request);
    const { tenant } = request;
    const state = outcome.kind === "queued" ? context.records.get("run", tenant, outcome.runId) : undefined;
    if (state !== undefined) context.records.put("run", tenant, state.runId, { ...state, status: "pending" });
    return outcome;
  },
};

export const swappedGate: Readonly<Record<string, Swap>> = {
  gate_past_its_limit: {
    what: "a run takes a place in a named gate without a look at its limit",
    caughtBy: ["INV-31"],
    swarm: gatedDay,
    table: inAll((context) => readingSettings(context, withoutNamedLimits)),
  },
  gate_limit_of_another_revision: {
    what: "the limits of a workflow's gates are those that it had before it was saved last",
    caughtBy: ["INV-31", "INV-32"],
    seedsMax: 500,
    swarm: (swarm) => savedOften(gatedDay(swarm)),
    table: earlierRevision,
  },
  stopped_tenant_granted: {
    what: "places are handed on in a tenant that is stopped",
    caughtBy: ["INV-31"],
    swarm: gatedDay,
    table: {
      ...inAll((context) => readingSettings(context, notStopped)),
      admit: operations.admit,
    },
  },
  hand_over_outside_the_operation: {
    what: "a commit frees the places of its run and leaves it to others to hand them on",
    caughtBy: ["INV-32"],
    swarm: gatedDay,
    table: handOverOutside,
  },
  raised_limit_unnoticed: {
    what: "gates are not looked at when the settings of their tenant have changed",
    caughtBy: ["INV-32"],
    swarm: gatedDay,
    table: limitsUnnoticed,
  },
  raised_workflow_limit_unnoticed: {
    what: "gates are not looked at when their workflow was saved",
    caughtBy: ["INV-32"],
    seedsMax: 500,
    swarm: (swarm) => savedOften(gatedDay(swarm)),
    table: workflowUnnoticed,
  },
  gate_looked_at_once: {
    what: "a gate that the sweep has found is not looked at again, though nobody may have handed its places on",
    caughtBy: ["INV-32"],
    swarm: gatedDay,
    table: lookedAtOnce,
  },
  place_not_held_while_waiting: {
    what: "a run that waits at its second gate does not hold its place in the first",
    caughtBy: ["INV-33"],
    swarm: gatedDay,
    table: placeNotHeld,
  },
  gates_in_the_order_written: {
    what: "places are taken in the order in which the gates were written",
    caughtBy: ["INV-33", "INV-37"],
    swarm: gatedDay,
    wrapStore: inTheOtherOrder,
  },
  queued_run_is_active: {
    what: "a run that waits is counted as active",
    caughtBy: ["INV-2", "INV-33"],
    swarm: gatedDay,
    table: queuedIsActive,
  },
  begins_while_waiting: {
    what: "a run begins although it waits for its places",
    caughtBy: ["INV-2", "INV-33"],
    swarm: gatedDay,
    table: beginsWhileWaiting,
  },
  ended_run_keeps_its_places: {
    what: "a run that was superseded or has ended keeps the places of its gates",
    caughtBy: ["INV-33"],
    swarm: gatedDay,
    table: inAll((context) => withoutErases(context, ["place"])),
  },
  cancelled_run_stays_in_line: {
    what: "a run that was cancelled while it waited is still in line",
    caughtBy: ["INV-33"],
    swarm: gatedDay,
    table: cancelledInLine,
  },
  place_in_the_queue_twice: {
    what: "two runs get the same place in a queue",
    caughtBy: ["INV-33"],
    swarm: gatedDay,
    table: inAll((context) =>
      mapping(
        context,
        "gateQueue",
        (value) => value && { ...value, arrivals: 0 },
        (value) => value,
      ),
    ),
  },
  share_forgotten: {
    what: "a grant does not move the tag of its key: places go by arrival alone",
    caughtBy: ["INV-34"],
    seedsMax: 500,
    swarm: crowdedDay,
    table: inAll(shareForgotten),
  },
  queue_deadline_forgotten: {
    what: "nothing ends a run that waits for too long",
    caughtBy: ["INV-37"],
    swarm: gatedDay,
    table: inAll((context) => withoutPuts(context, "due", " queued ")),
  },
  woken_run_forgotten: {
    what: "a run that got its last place is not where the sweep finds it",
    caughtBy: ["INV-23", "INV-37"],
    swarm: gatedDay,
    table: wokenForgotten,
  },
};
