// Operation tables with one mistake each about runs, jobs and approvals: the right operations over records that are not quite right.
import { type Operations, operations } from "../../../src/adapters/operations/perform.ts";
import {
  type Context,
  type JobState,
  orderedNumber,
  type RecordKind,
} from "../../../src/adapters/operations/records.ts";
import { isTerminal } from "../../../src/domain/run.ts";
import type { RequestOf } from "../../../src/ports/store.ts";
import { mapping, over } from "./broken-records.ts";

export const claimOfCancelledRun: Operations = {
  ...operations,
  claimJobs: (context, request) =>
    operations.claimJobs(
      mapping(context, "run", withoutCancel, (value) => value),
      request,
    ),
};

export const claimOfStoppedTenant: Operations = {
  ...operations,
  claimJobs: (context, request) =>
    operations.claimJobs(
      mapping(
        context,
        "tenant",
        (value) => value && { ...value, settings: { ...value.settings, stopped: false } },
        (value) => value,
      ),
      request,
    ),
};

export const claimForRevokedKey: Operations = {
  ...operations,
  claimJobs: (context, { credential: _credential, ...request }) => operations.claimJobs(context, request),
};

export const bornClaimedWhileCancelled: Operations = {
  ...operations,
  commit: (context, request) => {
    // Hidden from the operation, and left in the record that it writes back.
    const cancelRequested = context.records.get("run", request.tenant, request.runId)?.cancelRequested;
    const hidden = cancelRequested === undefined ? {} : { cancelRequested };
    const blind = mapping(
      context,
      "run",
      (value) => (value?.runId === request.runId ? withoutCancel(value) : value),
      (value) => (value.runId === request.runId ? { ...value, ...hidden } : value),
    );
    return operations.commit(blind, request);
  },
};

export const bornClaimedForRevokedKey: Operations = {
  ...operations,
  commit: (context, request) => {
    const { change } = request;
    const jobs = change.jobs.map(({ claim, ...spec }) => {
      if (claim === undefined) return spec;
      const { credential: _credential, ...terms } = claim;
      return { ...spec, claim: terms };
    });
    return operations.commit(context, { ...request, change: { ...change, jobs } });
  },
};

export const claimedTwice: Operations = {
  ...operations,
  claimJobs: (context, request) => operations.claimJobs(readingJobs(context, asReady), request),
};

export const resultOfAnyClaim: Operations = {
  ...operations,
  deliver: (context, request) => {
    const { entry, tenant, runId } = request;
    if (entry.kind !== "result") return operations.deliver(context, request);
    const token = context.records.get("job", `${tenant}/${runId}`, entry.jobId)?.claim?.token ?? entry.token;
    return operations.deliver(context, { ...request, entry: { ...entry, token } });
  },
};

export const resultTakenTwice: Operations = {
  ...operations,
  deliver: (context, request) => operations.deliver(readingJobs(context, asUnreported), request),
};

/** As a bus that recognises duplicates for a while. */
export const resultForgotten: Operations = {
  ...operations,
  deliver: (context, request) => {
    const nowMs = Math.floor(context.nowUs / 1_000);
    const forgetful = (job: JobState) =>
      nowMs > (job.claim?.claimedAtMs ?? 0) + 300 ? asUnreported(job) : job;
    return operations.deliver(readingJobs(context, forgetful), request);
  },
};

export const jobNotListed: Operations = {
  ...operations,
  admit: (context, request) => operations.admit(dropping(context, "ready"), request),
  createRun: (context, request) => operations.createRun(dropping(context, "ready"), request),
  deliver: (context, request) => operations.deliver(dropping(context, "ready"), request),
  commit: (context, request) => operations.commit(dropping(context, "ready"), request),
};

export const claimNeverExpires: Operations = {
  ...operations,
  claimJobs: (context, request) => operations.claimJobs(dropping(context, "due", " claim "), request),
};

export const claimTakenInTime: Operations = {
  ...operations,
  heartbeatJobs: (context, request) => operations.heartbeatJobs(over(context, { erase: () => {} }), request),
  sweep: (context, request) => operations.sweep(readingJobs(context, asExpired), request),
};

export const sweepForgets: Operations = {
  ...operations,
  sweep: (context, request) =>
    operations.sweep(
      mapping(
        context,
        "run",
        () => undefined,
        (value) => value,
      ),
      request,
    ),
};

export const lookFindsNothing: Operations = {
  ...operations,
  findDue: () => ({ kind: "found", partitions: [] }),
};

export const sweepSkipsTimers: Operations = {
  ...operations,
  sweep: (context, request) =>
    operations.sweep(
      mapping(
        context,
        "timer",
        () => undefined,
        (value) => value,
      ),
      request,
    ),
};

export const attentionNotSet: Operations = {
  ...operations,
  deliver: (context, request) => operations.deliver(dropping(context, "due", " attention "), request),
};

export const proposalOfAnyVersion: Operations = {
  ...operations,
  deliver: (context, request) => {
    const { tenant, runId, proposal } = request;
    const version = context.records.get("run", tenant, runId)?.version;
    if (proposal === undefined || version === undefined) return operations.deliver(context, request);
    const { expectedCommitId: _made, ...decided } = proposal;
    return operations.deliver(context, { ...request, proposal: { ...decided, expectedVersion: version } });
  },
};

export const consumesTooMuch: Operations = {
  ...operations,
  commit: (context, request) => operations.commit(context, { ...request, consumed: request.consumed + 1 }),
};

export const poisonWithoutLetter: Operations = {
  ...operations,
  takeRun: (context, request) => operations.takeRun(dropping(context, "document"), request),
  deliver: (context, request) => operations.deliver(dropping(context, "document"), request),
};

export const drainsNotCounted: Operations = {
  ...operations,
  takeRun: (context, request) => operations.takeRun(uncounted(context), request),
  deliver: (context, request) => operations.deliver(uncounted(context), request),
};

export const decidedTwice: Operations = {
  ...operations,
  deliver: (context, request) =>
    operations.deliver(
      mapping(
        context,
        "approval",
        (value) => {
          if (value?.decisionId === undefined) return value;
          const { decisionId: _decision, ...rest } = value;
          return { ...rest, state: "pending" };
        },
        (value) => value,
      ),
      request,
    ),
};

export const decisionWithoutEntry: Operations = {
  ...operations,
  deliver: (context, request) => {
    if (request.entry.kind !== "decision") return operations.deliver(context, request);
    const { tenant, runId } = request;
    const before = context.records.get("run", tenant, runId);
    const outcome = operations.deliver(context, withoutProposal(request));
    const after = context.records.get("run", tenant, runId);
    if (before === undefined || before.entriesAppended === after?.entriesAppended) return outcome;
    context.records.erase("inbox", `${tenant}/${runId}`, orderedNumber(before.entriesAppended + 1));
    context.records.put("run", tenant, runId, before);
    return outcome;
  },
};

export const hashIgnored: Operations = {
  ...operations,
  deliver: (context, request) => {
    const { entry, tenant } = request;
    if (entry.kind !== "decision") return operations.deliver(context, request);
    const hash = context.records.get("approval", tenant, entry.approvalId)?.hash ?? entry.hash;
    return operations.deliver(context, { ...request, entry: { ...entry, hash } });
  },
};

export const expiryIgnored: Operations = {
  ...operations,
  deliver: (context, request) =>
    operations.deliver(
      mapping(
        context,
        "approval",
        (value) => value && { ...value, expiresAtMs: Number.MAX_SAFE_INTEGER },
        (value) => value,
      ),
      request,
    ),
};

export const selfApproval: Operations = {
  ...operations,
  deliver: (context, request) =>
    operations.deliver(
      mapping(
        context,
        "approval",
        (value) => value && { ...value, separateDuties: false },
        (value) => value,
      ),
      request,
    ),
};

export const cancelAfterTheEnd: Operations = {
  ...operations,
  deliver: (context, request) =>
    request.entry.kind !== "cancel"
      ? operations.deliver(context, request)
      : operations.deliver(
          mapping(
            context,
            "run",
            (value) => value && (isTerminal(value.status) ? { ...value, status: "running" } : value),
            (value) => value,
          ),
          request,
        ),
};

export const timelineRowLost: Operations = {
  ...operations,
  commit: (context, request) => operations.commit(dropping(context, "timeline"), request),
};

export const parkedWithoutSlot: Operations = {
  ...operations,
  commit: (context, request) => {
    const outcome = operations.commit(context, request);
    const { tenant, runId } = request;
    const state = context.records.get("run", tenant, runId);
    if (outcome.kind === "committed" && state?.status === "waiting") {
      const member = `${String(state.admittedAtMs).padStart(16, "0")} ${runId}`;
      context.records.erase("active", tenant, member);
    }
    return outcome;
  },
};

export const endLeavesJobs: Operations = {
  ...operations,
  commit: (context, request) => operations.commit(context, leaving(request, { voidJobs: [] })),
};

export const endLeavesApprovals: Operations = {
  ...operations,
  commit: (context, request) => operations.commit(context, leaving(request, { closeApprovals: [] })),
};

function leaving(
  request: RequestOf<"commit">,
  left: Partial<RequestOf<"commit">["change"]>,
): RequestOf<"commit"> {
  const { change } = request;
  return isTerminal(change.status) ? { ...request, change: { ...change, ...left } } : request;
}

/** Puts of a kind, or of those members that contain the text, do not happen. */
function dropping(context: Context, dropped: RecordKind, part = ""): Context {
  return over(context, {
    put: (kind, scope, member, value) => {
      if (kind !== dropped || !member.includes(part)) context.records.put(kind, scope, member, value);
    },
  });
}

function readingJobs(context: Context, read: (job: JobState) => JobState): Context {
  return mapping(
    context,
    "job",
    (value) => value && read(value),
    (value) => value,
  );
}

function uncounted(context: Context): Context {
  return mapping(
    context,
    "run",
    (value) => value,
    (value) => ({ ...value, drains: 0 }),
  );
}

function withoutCancel<Value extends { readonly cancelRequested?: string }>(value: Value | undefined) {
  if (value === undefined) return undefined;
  const { cancelRequested: _cancel, ...rest } = value;
  return rest as Value;
}

function withoutProposal({ proposal: _proposal, ...rest }: RequestOf<"deliver">): RequestOf<"deliver"> {
  return rest;
}

function asReady(job: JobState): JobState {
  return job.state === "claimed" ? { ...job, state: "ready" } : job;
}

function asUnreported(job: JobState): JobState {
  if (job.state !== "reported") return job;
  const { reportId: _report, ...rest } = job;
  return { ...rest, state: "claimed" };
}

function asExpired(job: JobState): JobState {
  return job.claim === undefined ? job : { ...job, claim: { ...job.claim, expiresAtMs: 0 } };
}
