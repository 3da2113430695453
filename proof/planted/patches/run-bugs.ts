// Planted bugs in what happens to a run after its admission: inbox, commits, jobs, approvals, timers and the sweep.
import type { TextPatch } from "../planted-bug.ts";

const conformance = "test/conformance/store.test.ts";
const inbox = "src/adapters/operations/inbox.ts";
const jobs = "src/adapters/operations/jobs.ts";
const approvals = "src/adapters/operations/approvals.ts";
const sweep = "src/adapters/operations/sweep.ts";

/** One edit, caught by the conformance suite: most of these are such. */
function bug(name: string, what: string, file: string, find: string, replace: string): TextPatch {
  return { name, what, edits: [{ file, find, replace }], tests: [conformance] };
}

export const plantedRunBugs: readonly TextPatch[] = [
  {
    name: "remembered-state-changed-in-place",
    what: "a draft changes the state that the process remembers: a commit that is decided once more counts its steps twice",
    edits: [
      {
        file: "src/domain/engine/records.ts",
        find: "  const copy = { ...run, counts: { ...run.counts } };\n",
        replace: "  const copy = run;\n",
      },
    ],
    tests: ["test/unit/engine-flow.test.ts"],
  },
  {
    name: "remembered-state-not-as-written",
    what: "what a process remembers of a run differs from the text it has stored: the run never ends",
    edits: [
      {
        file: "src/control/engine/after-commit.ts",
        find: "if (key === runRecordKey) return written.run;",
        replace: "if (key === runRecordKey) return { ...written.run, counts: { running: 2 } };",
      },
    ],
    tests: ["test/unit/flow-handoff.test.ts"],
  },
  {
    name: "hint-for-own-workers-alone",
    what: "a job is not published although a worker of another process waits for it: it waits for the sweep",
    edits: [
      {
        file: "src/adapters/in-process-bus.ts",
        find: "if (!consumer.passesOver(tenant, topic)) return false;",
        replace: "return consumer.passesOver(tenant, topic);",
      },
    ],
    tests: ["test/unit/flow-unpublished.test.ts"],
  },
  {
    name: "no-hint-between-two-polls",
    what: "only workers that wait at this moment count: one that is between two polls is not told of its next job",
    edits: [
      {
        file: "src/control/jobs/hear-hints.ts",
        find: "!offers.serves(tenant as TenantId, topic)",
        replace: "offers.waiting(tenant as TenantId, topic).length === 0",
      },
    ],
    tests: ["test/unit/flow-unpublished.test.ts"],
  },
  {
    name: "backlog-before-neighbours",
    what: "the sweep takes due things in the order of time alone: one tenant's backlog delays its neighbours by all of it",
    edits: [
      {
        file: "src/adapters/redis/lua/sweep.lua",
        find: "if #due == 100 then",
        replace: "if false then",
      },
    ],
    tests: ["test/conformance/store.test.ts"],
  },
  {
    name: "slow-owners-blamed",
    what: "five owners in a row without a commit are enough, however quickly they follow: on a busy machine a step fails for nothing",
    edits: [
      {
        file: "src/adapters/redis/lua/parts/plan-take.lua",
        find: " and nowMs - sinceNow >= tonumber(inVainMs)",
        replace: "",
      },
    ],
    tests: ["test/conformance/store.test.ts"],
  },
  {
    name: "workflow-known-by-its-number",
    what: "a run starts by a definition that a failover has lost, because the revision has the same number again",
    edits: [
      {
        file: "src/adapters/operations/documents.ts",
        find: ' && found.body.includes(`"${definition}"`)',
        replace: " && definition !== undefined",
      },
    ],
    tests: [conformance],
  },
  {
    name: "proposal-known-by-its-number",
    what: "a commit that was decided after one that a failover has lost is applied, because another has its number: the run waits for ever",
    edits: [
      {
        file: inbox,
        find: "return isSameCommit && fitsTree",
        replace: "return isSameCommit !== undefined && fitsTree",
      },
      {
        file: "src/adapters/redis/lua/deliver.lua",
        find: "run[2] == versionText and isSameCommit and not ended",
        replace: "run[2] == versionText and not ended",
      },
    ],
    tests: [conformance],
  },
  bug(
    "result-without-claim",
    "a result is accepted from any worker that knows the job's id: a worker that lost its claim overwrites the new one's work",
    inbox,
    `  if (job?.state !== "claimed" || job.claim?.token !== entry.token) return { kind: "stale_claim" };`,
    `  if (job?.state !== "claimed") return { kind: "stale_claim" };`,
  ),
  bug(
    "result-applied-twice",
    "a job is not marked as reported: its result is applied as often as it arrives",
    inbox,
    `      settleJob(context, tenant, job, { state: "reported", reportId: entryId, claim: endOf(entry) });\n`,
    "",
  ),
  bug(
    "late-result-revives",
    "a result is accepted by a run that has ended",
    inbox,
    `  if (isTerminal(state.status)) return { kind: "run_ended" };
  if (job?.state !== "claimed"`,
    `  if (job?.state !== "claimed"`,
  ),
  bug(
    "commit-without-version",
    "a commit does not compare the version: an owner that was overtaken overwrites what happened since",
    inbox,
    `  if (state.version !== request.expectedVersion || !isUnderWay(state)) {`,
    `  if (isTerminal(state.status)) {`,
  ),
  bug(
    "proposal-without-version",
    "a commit decided in advance is applied whatever the run has become",
    inbox,
    `  if (state.version !== expectedVersion || !isUnderWay(state)) return false;`,
    `  if (isTerminal(state.status)) return false;`,
  ),
  bug(
    "proposal-past-an-owner",
    "a commit decided in advance is applied although somebody owns the run",
    inbox,
    `  const free = holder === undefined && state.entriesWaiting === 0;`,
    `  const free = state.entriesWaiting === 0;`,
  ),
  bug(
    "entries-not-consumed",
    "a commit leaves the entries it applied: they are applied again",
    inbox,
    `  const left = consumeEntries(context, state, consumed);`,
    `  const left = consumeEntries(context, state, consumed * 0);`,
  ),
  bug(
    "inbox-without-attention",
    "an entry does not put its run where the sweep looks: if its owner dies, nobody ever applies it",
    "src/adapters/operations/run-records.ts",
    `  return state.attentionAtMs === undefined
    ? withAttention(context, next, context.settings.attentionMs)
    : next;`,
    "  return next;",
  ),
  bug(
    "slot-kept-at-the-end",
    "the end of a run does not free its slot: the tenant's limit fills up with runs that are over",
    "src/adapters/operations/gates.ts",
    `  for (const gate of heldBy(state)) freePlace(context, state, gate);\n`,
    "",
  ),
  bug(
    "claim-of-a-cancelled-run",
    "a job of a run that is being cancelled can still be claimed",
    jobs,
    `  return run.cancelRequested === undefined ? undefined : "run_cancelling";`,
    "  return undefined;",
  ),
  bug(
    "claim-past-the-kill-switch",
    "jobs of a stopped tenant can still be claimed",
    jobs,
    `  if (readTenant(context, tenant).settings.stopped === true) return "tenant_stopped";\n`,
    "",
  ),
  bug(
    "claim-taken-over",
    "a claimed job can be claimed by a second worker: both do the work",
    jobs,
    `  if (job.state !== "ready") return job.state === "parked" ? "budget_held" : "not_ready";\n`,
    "",
  ),
  bug(
    "lost-claim-forgotten",
    "a claim that runs out does not reach the run: its step waits for ever",
    sweep,
    '  bring(context, tenant, job.runId, { kind: "claim_lost", entryId: `lost:${jobId}`, jobId, worker }, found);\n',
    "  void worker;\n",
  ),
  bug(
    "timer-fires-early",
    "a timer can be delivered before it is due",
    inbox,
    `  if (timer === undefined || timer.dueAtMs > nowMs(context)) return { kind: "timer_not_due" };`,
    `  if (timer === undefined) return { kind: "timer_not_due" };`,
  ),
  bug(
    "second-decision-wins",
    "an approval that was decided can be decided again",
    approvals,
    `  if (approval.state !== "pending") return { kind: "approval_already_decided", approval };\n`,
    "",
  ),
  bug(
    "decision-without-hash",
    "a decision is not bound to what was shown",
    approvals,
    `  if (approval.hash !== entry.hash) return { kind: "approval_changed", approval };\n`,
    "",
  ),
  bug(
    "decision-after-expiry",
    "an approval can be decided after it has expired",
    approvals,
    `nowMs(context) >= expiresAtMs)`,
    `nowMs(context) < 0)`,
  ),
  bug(
    "decided-before-persons-are-compared",
    "a decision is made at once although duties are separate: nobody compares the persons behind the keys",
    approvals,
    `  if (approval.separateDuties && entry.unlessSeparate === true) return { kind: "duties_separate", approval };\n`,
    "",
  ),
  bug(
    "approve-own-request",
    "the person who started a run may approve it although duties are separate",
    approvals,
    `approval.requester === entry.decidedBy && approves`,
    `approval.requester === "" && approves`,
  ),
  bug(
    "republished-for-ever",
    "an unclaimed job is published again at the same pace for ever",
    "src/adapters/operations/job-records.ts",
    "republishAfterMs * 2 ** job.republished",
    "republishAfterMs",
  ),
  bug(
    "run-kept-for-ever",
    "retention does not remove ended runs",
    "src/adapters/operations/changes.ts",
    `  setDue(context, { kind: "retention", tenant, subject: runId }, removeAtMs);\n`,
    "",
  ),
  bug(
    "revoked-key-still-works",
    "operations do not look at the revoked keys: a cached key works until the cache expires",
    "src/adapters/operations/tenants.ts",
    `settings.revokedKeyIds?.includes(credential) ?? false`,
    `settings.revokedKeyIds?.includes("") ?? false`,
  ),
  {
    name: "hand-back-for-ever",
    what: "hand-backs are not bounded: a worker that hands back whatever it gets keeps a step busy for ever",
    edits: [
      {
        file: "src/domain/engine/try-again.ts",
        find: "  if (handBacks <= handBacksMax) enqueueAttempt(draft, counted);",
        replace: "  if (handBacks > 0) enqueueAttempt(draft, counted);",
      },
    ],
    tests: ["test/unit/engine-attempts.test.ts"],
  },
  {
    name: "hand-back-is-a-failure",
    what: "a job that is handed back counts as a failed attempt: a deployment of the workers uses up the step's retries",
    edits: [
      {
        file: "src/domain/engine/apply-entry.ts",
        find: `entry.outcome === "handed_back"`,
        replace: `(entry.outcome as string) === ""`,
      },
    ],
    tests: ["test/unit/engine-attempts.test.ts"],
  },
];
