// The planted bugs in small tables and in rarely used identities.
import type { TextPatch } from "../planted-bug.ts";

const effects = "test/unit/sdk-effects.test.ts";
const identity = "test/unit/request-identity.test.ts";

function bug(
  name: string,
  what: string,
  edit: TextPatch["edits"][number],
  ...tests: readonly string[]
): TextPatch {
  return { name, what, edits: [edit], tests };
}

export const plantedTableBugs: readonly TextPatch[] = [
  bug(
    "refused-removal-counts-as-done",
    "a removal that was surely not done counts as done when the next try finds nothing",
    {
      file: "src/sdk/call.ts",
      find: `mayBeDone ||= error.effect === "unknown";`,
      replace: "mayBeDone = true;",
    },
    effects,
  ),
  bug(
    "cancelled-has-no-effect",
    "a request that the server gave up half way counts as not done: what may not be repeated is done twice",
    {
      file: "src/sdk/send.ts",
      find: ` || problem.code === "request_cancelled"`,
      replace: "",
    },
    effects,
  ),
  bug(
    "gateway-timeout-is-final",
    "a proxy's 504 is not repeated: a start fails although its key would have found its run",
    { file: "src/sdk/send.ts", find: "[408, 429, 502, 503, 504]", replace: "[408, 429, 502, 503]" },
    effects,
  ),
  bug(
    "new-canary-sent-twice",
    "the start of a canary is repeated after a lost answer: its caller hears that there is one already",
    {
      file: "src/sdk/call.ts",
      find: "  drainPool: always,\n",
      replace: "  drainPool: always,\n  startCanary: always,\n",
    },
    effects,
  ),
  bug(
    "approval-lock-waits-otherwise",
    "whoever meets a busy approval lock is told to wait for the gateway's time instead of admission's",
    {
      file: "src/errors.ts",
      find: `passing(409, "approval lock busy", "Repeat after Retry-After.", asAdmission)`,
      replace: `passing(409, "approval lock busy", "Repeat after Retry-After.")`,
    },
    "test/unit/gateway-failures.test.ts",
  ),
  bug(
    "other-tenant-looks-missing",
    "a command whose key is of another tenant ends as if it were merely refused",
    { file: "src/cli/report-failure.ts", find: ` || error.code === "tenant_mismatch"`, replace: "" },
    "test/unit/cli-exit-codes.test.ts",
  ),
  bug(
    "incomplete-trail-is-broken",
    "the verification of a trail with a known gap ends as if somebody had changed it",
    {
      file: "src/cli/commands/events.ts",
      find: `verdict.status === "broken"`,
      replace: `verdict.status !== "intact"`,
    },
    "test/unit/cli-exit-codes.test.ts",
  ),
  bug(
    "operators-delete-runs",
    "an operator's key may purge what only an admin should",
    {
      file: "src/api/routes.ts",
      find: `summary: "Remove a workflow; runs that were started go on with the definition they have.",\n    access: admins,`,
      replace: `summary: "Remove a workflow; runs that were started go on with the definition they have.",\n    access: operators,`,
    },
    "test/unit/api-routes.test.ts",
  ),
  bug(
    "letters-kept-a-week",
    "dead letters are kept for as long as runs, a week instead of thirty days",
    {
      file: "src/settings/store.ts",
      find: `"RETENTION_DEAD_LETTER_DAYS",\n    "days",\n    30,`,
      replace: `"RETENTION_DEAD_LETTER_DAYS",\n    "days",\n    7,`,
    },
    "test/unit/load-config.test.ts",
  ),
  bug(
    "restored-file-for-everybody",
    "a restored database has the permissions of the backup: others of the machine read the inputs of all runs",
    {
      file: "src/adapters/sqlite/backup.ts",
      find: "    copyFileSync(source, partial);\n    chmodSync(partial, 0o600);\n",
      replace: "    copyFileSync(source, partial);\n",
    },
    "test/conformance/sqlite-permissions.test.ts",
  ),
  bug(
    "journal-stays-beside-a-restore",
    "the journal of an earlier file stays beside the restored one, which does not open",
    {
      file: "src/adapters/sqlite/backup.ts",
      find: `["-wal", "-shm", "-journal"]`,
      replace: `["-wal", "-shm"]`,
    },
    "test/conformance/sqlite-permissions.test.ts",
  ),
  bug(
    "sides-of-a-canary-swapped",
    "starts of both sides are counted for the control",
    {
      file: "src/control/canaries/samples.ts",
      find: `{ arm, kind: "start" }`,
      replace: `{ arm: "control", kind: "start" }`,
    },
    "test/unit/metric-emissions.test.ts",
  ),
  bug(
    "checkpoint-forgets-what-followed",
    "a canary's totals lose the windows that were set aside since its checkpoint",
    {
      file: "src/control/canaries/collected-samples.ts",
      find: "mergedArms(base.arms, base.olderSince)",
      replace: "base.arms",
    },
    "test/unit/metric-emissions.test.ts",
  ),
  bug(
    "rerun-without-its-body",
    "the fingerprint of a rerun leaves its body out: a rerun from another step is taken for the first",
    {
      file: "src/gateway/handlers/run-handlers.ts",
      find: "boundKey(ports, reading, path, { query: {}, body })",
      replace: "boundKey(ports, reading, path, { query: {}, body: null })",
    },
    identity,
  ),
  bug(
    "team-of-a-start-ignored",
    "the same start for another team is taken for the first",
    {
      file: "src/domain/fingerprint.ts",
      find: `["dry_run", "team_id"]`,
      replace: `["dry_run"]`,
    },
    identity,
  ),
  bug(
    "long-subject-believed",
    "a subject that stands beside a digest is believed without it: a result goes to another run",
    {
      file: "src/adapters/nats/messages.ts",
      find: "return names.subject(stream, subject) === message.subject ? subject : undefined;",
      replace: "return subject;",
    },
    "test/unit/nats-subjects.test.ts",
  ),
  bug(
    "lease-by-one-clock",
    "a lease counts by the monotonic clock alone: an agent whose machine slept works on under somebody else's lock",
    {
      file: "src/sdk/runtime.ts",
      find: "return Math.max(now.monotonicMs - since.monotonicMs, now.wallMs - since.wallMs);",
      replace: "return now.monotonicMs - since.monotonicMs;",
    },
    "test/unit/sdk-lock-clocks.test.ts",
  ),
];
