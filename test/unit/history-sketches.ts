// Small histories by hand: each line is an operation with its times, its answer or the lack of one, or a reading of the end.
import { describe, expect, test } from "vitest";
import { checkHistory, type Verdict } from "../../proof/history/check-history.ts";
import { assembleHistory, type History } from "../../proof/history/history.ts";
import type { Answer, Final, HistoryRecord, Operation, Setting } from "../../proof/history/record.ts";

/** A line is told its own number, which makes the ids of operations. */
export type Line = (number: number) => readonly HistoryRecord[];

export type Asked = {
  readonly from: number;
  readonly to: number;
  readonly client?: string;
};

/** `work` is a tenant whose runs are worked on; `ledger` is one whose runs only a cancel ends. */
export const work = "work";
export const ledger = "ledger";

export function ok({ from, to, client }: Asked, operation: Operation, answer = done): Line {
  return (number) => [
    { type: "invoke", id: `${number}`, client: client ?? `client-${number}`, atUs: from, ...operation },
    { type: "ok", id: `${number}`, atUs: to, answer },
  ];
}

export function refused(
  { from, to, client }: Asked,
  operation: Operation,
  code: string,
  answer?: Answer,
): Line {
  return (number) => [
    { type: "invoke", id: `${number}`, client: client ?? `client-${number}`, atUs: from, ...operation },
    { type: "fail", id: `${number}`, atUs: to, code, ...(answer === undefined ? {} : { answer }) },
  ];
}

export function lost(from: number, operation: Operation, client?: string): Line {
  return (number) => [
    { type: "invoke", id: `${number}`, client: client ?? `client-${number}`, atUs: from, ...operation },
    { type: "unknown", id: `${number}`, atUs: from + 1, code: "timeout" },
  ];
}

export function final(reading: Final): Line {
  return () => [{ type: "final", ...reading }];
}

export function failover(beginUs: number, endUs: number): Line {
  const fault = { type: "fault", name: "failover", target: "redis" } as const;
  return () => [
    { ...fault, phase: "begin", atUs: beginUs },
    { ...fault, phase: "end", atUs: endUs },
  ];
}

export function begun(atUs: number, worker: string, jobId: string): Line {
  return () => [{ type: "effect", worker, jobId, nonce: `${jobId} ${worker}`, phase: "begin", atUs }];
}

export type Written = {
  readonly at: number;
  readonly fence: number;
  readonly writer: string;
  readonly element: string;
};

export function written({ at, ...write }: Written, verdict: "accepted" | "refused" = "accepted"): Line {
  return () => [{ type: "write", set: "set", ...write, accepted: verdict === "accepted", atUs: at }];
}

export const start = (key: string | undefined, fingerprint = "usual", tenant = work): Operation => ({
  operation: "start",
  tenant,
  workflow: "plain",
  fingerprint,
  ...(key === undefined ? {} : { key }),
});
export const get = (runId: string, tenant = work): Operation => ({ operation: "get", tenant, runId });
export const cancel = (runId: string, tenant = work): Operation => ({ operation: "cancel", tenant, runId });
export const setLimit = (limit: number, tenant = work): Operation => ({
  operation: "set_limit",
  tenant,
  limit,
});
export const claim = (worker: string): Operation => ({ operation: "claim", tenant: work, worker });
export const report = (
  jobId: string,
  nonce: string,
  status?: "succeeded" | "failed" | "handed_back",
): Operation => ({
  operation: "report",
  tenant: work,
  jobId,
  nonce,
  ...(status === undefined ? {} : { status }),
});
export const decide = (approvalId: string, decision: "approved" | "rejected"): Operation => ({
  operation: "decide",
  tenant: work,
  approvalId,
  decision,
  by: "somebody",
});
export const acquire = (ttlMs?: number): Operation => ({
  operation: "acquire",
  tenant: work,
  lock: "lock",
  ...(ttlMs === undefined ? {} : { ttlMs }),
});
export const release = (fence: number): Operation => ({
  operation: "release",
  tenant: work,
  lock: "lock",
  fence,
});
export const readSet: Operation = { operation: "read_set", set: "set" };

export const made = (runId: string): Answer => ({ kind: "run", runId, replayed: false });
export const replayed = (runId: string): Answer => ({ kind: "run", runId, replayed: true });
export const status = (text: string): Answer => ({ kind: "status", status: text });
export const decided = (decision: "approved" | "rejected"): Answer => ({ kind: "decided", decision });
export const granted = (fence: number): Answer => ({ kind: "lock", fence });
export const accepted: Answer = { kind: "report", outcome: "accepted" };
export const duplicate: Answer = { kind: "report", outcome: "duplicate" };
export const done: Answer = { kind: "done" };
export const elements = (...each: readonly string[]): Answer => ({ kind: "set", elements: each });
export const claimed = (...jobIds: readonly string[]): Answer => ({
  kind: "claimed",
  jobs: jobIds.map((jobId) => {
    const [, runId = "", step = "", attempt = "1"] = /^(.+):(.+)@(\d+)$/.exec(jobId) ?? [];
    return { jobId, runId, step, attempt: Number(attempt) };
  }),
});

export function finalRun(
  runId: string,
  text: string,
  nonces: Readonly<Record<string, string>> = {},
  completed: readonly string[] = Object.keys(nonces),
): Line {
  const tenant = runId.startsWith("l") ? ledger : work;
  return final({ of: "run", tenant, runId, status: text, completed, nonces });
}

const usualSetting: Setting = {
  format: 1,
  startedAt: "2026-01-01T00:00:00Z",
  seed: 1,
  durability: "replicated",
  limits: { work: 2, ledger: 2 },
  attemptsMax: 3,
};

export function recordsOf(lines: readonly Line[], setting: Partial<Setting> = {}): HistoryRecord[] {
  // So that nobody takes `work` for a tenant whose runs only a cancel ends.
  const working = lost(0, decide("elsewhere:ask@1", "approved"));
  return [
    { type: "begin", ...usualSetting, ...setting },
    ...[...lines, working].flatMap((line, number) => line(number)),
  ];
}

export function historyOf(lines: readonly Line[], setting: Partial<Setting> = {}): History {
  const assembled = assembleHistory(recordsOf(lines, setting));
  if (assembled.kind === "broken") throw new Error(assembled.problem);
  return assembled.history;
}

/** What every check finds; that so small a history proves little is not asked. */
export function verdictOf(lines: readonly Line[], setting: Partial<Setting> = {}): Verdict {
  return checkHistory(historyOf(lines, setting));
}

/** What is found, in the order of the checks; nothing for a history that only looks wrong. */
export type Case = readonly [name: string, found: readonly string[], lines: readonly Line[]];

export function table(name: string, cases: readonly Case[]): void {
  describe(name, () => {
    test.each(cases)("%s: %j", (_, found, lines) => {
      const { findings } = verdictOf(lines);
      expect(findings.map(({ invariant }) => invariant)).toEqual(found);
      for (const { records, sentence, standing } of findings) {
        expect([records.length > 0, sentence.length > 20, standing]).toEqual([true, true, "promised"]);
      }
    });
  });
}
