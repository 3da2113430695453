// Every comparison in the store operations has its three cases among the edges, or says here why it needs none.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { edges } from "../../src/testing/conformance/edges.ts";

const folder = join(dirname(dirname(import.meta.dirname)), "src/adapters/operations");

/** A file and a part of the line, with what the comparison is about or which case has its edges. */
const elsewhere: Readonly<Record<string, string>> = {
  "changes.ts waiting > 0; waiting -= 1": "a loop over all that waits",
  "inbox.ts revision > 1": "no size: the second revision says that the letter was retried",
  "inbox.ts index < amount": "a loop over as many entries as one drain applies",
  "ownership.ts state.drains > 0": "whether there was an owner at all",
  "locks.ts after < firstRunLock": "an order of names",
  "locks.ts member < firstRunLock": "an order of names",
  "locks.ts member > after": "an order of names",
  "retries.ts run.entriesWaiting > 0": "whether anything waits at all",
  "retries.ts entry > applied": "waiting-retry-cases.ts: which of several retries were applied",
  "sweep.ts lookedAt > end": "an order of names",
  "sweep.ts further.length < lookedAtMax": "sweep-cases.ts: 10,000 due things of one tenant",
  "proofs.ts records.size(kind, tenant) > 0": "whether there is a place or a run that waits at all",
  "proofs.ts rows.length < room": "redis-sweep.test.ts: 130 slots, of which one visit proves a hundred",
  "proofs.ts left > 0": "gate-proofs.test.ts: 130 places, of which one visit proves a hundred",
  "proofs.ts nextKeyMs < nowMs(context)":
    "key-cases.ts: 130 expired keys, of which one visit forgets a hundred",
  "queues.ts level < headLevel": "queue-cases.ts: an operator's move is inherited by nobody",
  "released.ts entriesWaiting > 0": "released-cases.ts: a run keeps its places while entries wait",
  "queues.ts level >= fromLevel": "queue-cases.ts: the position among levels",
  "queues.ts tries < movesMax": "a loop over what does not wait there",
  "queues.ts order.length < limit": "queue-cases.ts: as many as asked for",
  "queues.ts Object.keys(queue.levels).length > 0": "whether anybody waits at all",
  "budgets.ts one.ledger < other.ledger": "an order of names",
  "rates.ts before > forgetAtMs": "rates.test.ts: when the sweep looks at a level, which no answer shows",
  "rates.ts kept.visitAtMs > nowMs(context)": "rates.test.ts: the same",
  "rates.ts kept.forgetAtMs <= nowMs(context)": "rates.test.ts: the same",
  "tickets.ts live.length >= ticketsMax": "lock-queue-cases.ts: the queue of a thousand",
  "tickets.ts over.length < limit":
    "pages of a hundred: a full one is followed by another, which may be empty",
};

type Line = { readonly file: string; readonly text: string };

const lines: readonly Line[] = readdirSync(folder).flatMap((file) =>
  readFileSync(join(folder, file), "utf8")
    .split("\n")
    .map((text) => ({ file, text: text.trim() })),
);

/** Types and arrows have no spaces on both sides; comments are no code. */
const comparisons = lines.filter(({ text }) => / (<|>|<=|>=) /.test(text) && !/^(\/\/|\/?\*)/.test(text));

const decides = (place: string) => (line: Line) => {
  const space = place.indexOf(" ");
  return line.file === place.slice(0, space) && line.text.includes(place.slice(space + 1));
};

const places = [...new Set([...edges.flatMap(({ decidedBy }) => decidedBy), ...Object.keys(elsewhere)])];

test("every comparison of the operations is at an edge that is tested, or is explained", () => {
  const untested = comparisons.filter((line) => !places.some((place) => decides(place)(line)));
  expect(untested.map(({ file, text }) => `${file} ${text}`)).toEqual([]);
  expect(comparisons.length).toBeGreaterThan(50);
});

test.each(places)("there still is a comparison at %s", (place) => {
  expect(comparisons.filter(decides(place))).not.toEqual([]);
});
