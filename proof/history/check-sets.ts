// Sets in the world outside, changed under a lock by writers that may be stale: nothing accepted is lost, and nothing older comes after.
import type { Finding } from "./finding.ts";
import { groupBy } from "./group-by.ts";
import { answeredAtUs, type History, okAnswer, type Timed } from "./history.ts";
import type { HistoryRecord, SinkWrite } from "./record.ts";

type Write = Timed<SinkWrite>;

export function checkSets(history: History): Finding[] {
  const bySet = groupBy(history.writes, ({ set }) => set);
  const taken = new Map([...bySet].map(([set, writes]) => [set, takenOf(writes)]));
  return [
    ...[...bySet.values()].flatMap(checkFences),
    ...history
      .finalsOf("set")
      .flatMap(({ set, elements, record }) =>
        checkElements(set, taken.get(set) ?? new Map(), { elements, records: [record], ...atTheEnd }),
      ),
    ...history.callsOf("read_set").flatMap((call) => {
      const answer = okAnswer(call, "set");
      if (answer === undefined) return [];
      const { records, operation, invokedAtUs: askedUs } = call;
      const read = { elements: answer.elements, records, askedUs, answeredUs: answeredAtUs(call) };
      return checkElements(operation.set, taken.get(operation.set) ?? new Map(), read);
    }),
  ];
}

/** The first accepted write of each element, in the order of time. */
function takenOf(writes: readonly Write[]): Map<string, Write> {
  const taken = new Map<string, Write>();
  for (const write of writes) {
    if (write.accepted && !taken.has(write.element)) taken.set(write.element, write);
  }
  return taken;
}

function found(sentence: string, records: readonly HistoryRecord[]): Finding {
  // Fences grow across failovers at every level, and the world outside is not the store's.
  return { invariant: "INV-12", standing: "promised", sentence, records };
}

/** One writer may write several times while it holds the lock. */
function checkFences(writes: readonly Write[]): Finding[] {
  let newest: Write | undefined;
  const findings: Finding[] = [];
  for (const write of writes) {
    if (!write.accepted) continue;
    const { set, fence, writer } = write;
    if (newest !== undefined && fence < newest.fence) {
      const sentence = `set ${set} took ${writer}'s write of fence ${fence} after one of fence ${newest.fence}`;
      findings.push(found(sentence, [newest.record, write.record]));
    } else if (newest !== undefined && fence === newest.fence && writer !== newest.writer) {
      const sentence = `set ${set} took writes of fence ${fence} by ${newest.writer} and by ${writer}`;
      findings.push(found(sentence, [newest.record, write.record]));
    }
    if (newest === undefined || fence >= newest.fence) newest = write;
  }
  return findings;
}

type Reading = {
  readonly elements: readonly string[];
  readonly records: readonly HistoryRecord[];
  readonly askedUs: number;
  readonly answeredUs: number;
};

const atTheEnd = { askedUs: Number.POSITIVE_INFINITY, answeredUs: Number.POSITIVE_INFINITY };

function checkElements(set: string, taken: ReadonlyMap<string, Write>, reading: Reading): Finding[] {
  const { elements, records, askedUs, answeredUs } = reading;
  const read = new Set(elements);
  const findings: Finding[] = [];
  for (const [element, write] of taken) {
    if (write.atUs >= askedUs) break;
    if (read.has(element)) continue;
    findings.push(found(`set ${set} has lost ${element}, which it had taken`, [write.record, ...records]));
  }
  for (const element of read) {
    const write = taken.get(element);
    if (write !== undefined && write.atUs <= answeredUs) continue;
    findings.push(found(`set ${set} holds ${element}, which it had not taken`, records));
  }
  return findings;
}
