// One key, one run: what every start was answered, held against every other with its key, and against the keys in the end.
import { type Finding, standingOf } from "./finding.ts";
import { groupBy } from "./group-by.ts";
import { answeredAtUs, type Call, type History, okAnswer } from "./history.ts";

type Start = Call<"start">;
type Answered = { readonly call: Start; readonly runId: string; readonly replayed: boolean };

export function checkKeys(history: History): Finding[] {
  const starts = history.callsOf("start");
  const keyed = starts.filter(({ operation }) => operation.key !== undefined);
  const groups = groupBy(keyed, ({ operation }) => `${operation.tenant} ${operation.key}`);
  return [
    ...[...groups.values()].flatMap((group) => [
      ...checkOneRun(history, group),
      ...checkFingerprints(history, group),
      ...checkReplays(history, group),
    ]),
    ...starts
      .filter((call) => call.operation.key === undefined && okAnswer(call, "run")?.replayed === true)
      .map((call) =>
        found(history, "INV-8", "a start without a key was answered with an earlier run", [call]),
      ),
    ...checkScopes(history, starts),
    ...checkFinalKeys(history, groups),
  ];
}

/** The finding rests on all that happened from the first of these calls to the answer of the last. */
function found(
  history: History,
  invariant: Finding["invariant"],
  sentence: string,
  calls: readonly Call[],
): Finding {
  const fromUs = Math.min(...calls.map(({ invokedAtUs }) => invokedAtUs));
  const toUs = Math.max(...calls.map(answeredAtUs));
  const records = calls.flatMap(({ records: told }) => told);
  return { invariant, standing: standingOf(history, { fromUs, toUs }), sentence, records };
}

function answeredOf(group: readonly Start[]): Answered[] {
  return group.flatMap((call) => {
    const answer = okAnswer(call, "run");
    return answer === undefined ? [] : [{ call, runId: answer.runId, replayed: answer.replayed }];
  });
}

function nameOf({ operation: { tenant, key } }: Start): string {
  return `key ${key} of ${tenant}`;
}

function checkOneRun(history: History, group: readonly Start[]): Finding[] {
  const answered = answeredOf(group);
  const byRun = [...groupBy(answered, ({ runId }) => runId).values()].map(([first]) => first as Answered);
  const [first, ...others] = byRun;
  if (first === undefined || others.length === 0) return [];
  const runs = byRun.map(({ runId }) => runId).join(", ");
  const calls = byRun.map(({ call }) => call);
  return [found(history, "INV-6", `${nameOf(first.call)} was answered with several runs: ${runs}`, calls)];
}

function checkFingerprints(history: History, group: readonly Start[]): Finding[] {
  const answered = answeredOf(group).map(({ call }) => call);
  const printOf = ({ operation }: Start) => operation.fingerprint;
  const [first, other] = [...groupBy(answered, printOf).values()].map(([call]) => call as Start);
  const findings =
    first === undefined || other === undefined
      ? []
      : [found(history, "INV-8", `${nameOf(first)} gave a run to two different requests`, [first, other])];
  const refused = group.filter(
    ({ completion }) => completion.kind === "fail" && completion.code === "idempotency_key_reused",
  );
  for (const call of refused) {
    const own = answered.find((each) => printOf(each) === printOf(call));
    const isUsed = group.some(
      (each) =>
        printOf(each) !== printOf(call) &&
        each.completion.kind !== "fail" &&
        each.invokedAtUs <= answeredAtUs(call),
    );
    const sentence = `${nameOf(call)} was refused as used with a different request, and was not`;
    if (own !== undefined || !isUsed) {
      findings.push(found(history, "INV-8", sentence, own === undefined ? [call] : [call, own]));
    }
  }
  return findings;
}

function checkReplays(history: History, group: readonly Start[]): Finding[] {
  const answered = answeredOf(group);
  const makers = answered.filter(({ replayed }) => !replayed);
  const findings: Finding[] = [];
  for (const [runId, told] of groupBy(makers, (each) => each.runId)) {
    const [first, second] = told;
    if (first === undefined || second === undefined) continue;
    const sentence = `two requests with ${nameOf(first.call)} were both told that they had made ${runId}`;
    findings.push(found(history, "INV-8", sentence, [first.call, second.call]));
  }
  for (const { call, replayed } of answered) {
    const hasMaker = group.some(
      (each) => each !== call && each.completion.kind !== "fail" && each.invokedAtUs <= answeredAtUs(call),
    );
    if (!replayed || hasMaker) continue;
    findings.push(
      found(history, "INV-8", `${nameOf(call)} was answered with an earlier run, and nobody made it`, [call]),
    );
  }
  return findings;
}

/** A run belongs to the one tenant, and the one key if any, that it was made with. */
function checkScopes(history: History, starts: readonly Start[]): Finding[] {
  const findings: Finding[] = [];
  const owners = new Map<string, Start>();
  for (const { call, runId } of answeredOf(starts)) {
    const owner = owners.get(runId);
    if (owner === undefined) {
      owners.set(runId, call);
    } else if (owner.operation.tenant !== call.operation.tenant) {
      const sentence = `run ${runId} was given to ${owner.operation.tenant} and to ${call.operation.tenant}`;
      findings.push(found(history, "INV-9", sentence, [owner, call]));
    } else if (owner.operation.key !== call.operation.key || call.operation.key === undefined) {
      const sentence = `run ${runId} of ${call.operation.tenant} was given to requests of different keys`;
      findings.push(found(history, "INV-6", sentence, [owner, call]));
    }
  }
  return findings;
}

function checkFinalKeys(history: History, groups: ReadonlyMap<string, readonly Start[]>): Finding[] {
  const missing = new Set(
    history.finalsOf("run").flatMap(({ status, runId }) => (status === "missing" ? [runId] : [])),
  );
  return history.finalsOf("key").flatMap(({ tenant, key, runId, record }) => {
    const answered = answeredOf(groups.get(`${tenant} ${key}`) ?? []);
    // That a run is gone, and its key with it, is told once, of the run.
    const wrong = answered.find((each) => each.runId !== runId && !missing.has(each.runId));
    if (wrong === undefined || answered.some((each) => each.runId === runId)) return [];
    const bound = runId === "" ? "nothing" : runId;
    const sentence = `key ${key} of ${tenant} was answered with ${wrong.runId} and is bound to ${bound} in the end`;
    const fromUs = wrong.call.invokedAtUs;
    const standing = standingOf(history, { fromUs, toUs: Number.POSITIVE_INFINITY });
    return [{ invariant: "INV-6", standing, sentence, records: [...wrong.call.records, record] }];
  });
}
