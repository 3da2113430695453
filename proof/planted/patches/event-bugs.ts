// Planted bugs in live events: what a client misses, sees twice, or costs.
import type { TextPatch } from "../planted-bug.ts";

const feed = "src/control/events/feed.ts";
const tail = "src/control/events/tail.ts";
const stream = "src/gateway/event-stream.ts";
const units = [
  "test/unit/event-feeds.test.ts",
  "test/unit/event-feeds-run.test.ts",
  "test/unit/event-stream.test.ts",
];

/** One edit, caught by the tests in virtual time. */
function bug(
  name: string,
  what: string,
  file: string,
  edit: { readonly find: string; readonly replace: string },
): TextPatch {
  return { name, what, edits: [{ file, ...edit }], tests: units };
}

export const plantedEventBugs: readonly TextPatch[] = [
  bug("resume-off-by-one", "a client that resumes gets the row that it has once more", feed, {
    find: `  if (start.kind === "after") return start.number;`,
    replace: `  if (start.kind === "after") return start.number - 1;`,
  }),
  bug(
    "catch-up-jumps-to-now",
    "a client that has caught up by a read of its own goes on from the tail's place: what lies in between is lost",
    feed,
    {
      find: `reading.last < this.#position) this.#hand(this.#judge(reading));
`,
      replace: `reading.last < this.#position) {
      this.#hand(this.#judge(reading));
      this.#position = this.#tail.position();
    }
`,
    },
  ),
  bug(
    "a-read-per-client",
    "every client reads for itself: a thousand clients cost a thousand reads a change",
    feed,
    {
      find: `    if (rows !== undefined) {
      this.#hasCaughtUp = true;`,
      replace: `    if (rows !== undefined && rows.length < 0) {
      this.#hasCaughtUp = true;`,
    },
  ),
  bug(
    "dropped-rows-unsaid",
    "rows that were dropped before they were read are left out without a word",
    feed,
    {
      find: `    if (this.#firstOf(reading) > this.#position + 1 && reading.rows.length > 0)
      return this.#resetTo(reading, "trimmed");
`,
      replace: "",
    },
  ),
  bug("end-before-the-last-row", "the end of a run is told before the rows that lead to it", tail, {
    find: `    this.#end = this.#position < last ? undefined : end;`,
    replace: `    this.#end = end;`,
  }),
  bug("unwatched-tail-reads-on", "a tenant is read for ever, although nobody watches it any more", tail, {
    find: `      this.#stop();
      this.#options.onUnwatched();`,
    replace: `      this.#options.onUnwatched();`,
  }),
  bug("stuck-client-kept", "a client that takes nothing is waited for, for as long as it likes", stream, {
    find: `    if (content.feed.lag() > service.config["events.rowsKeptMax"]) end(stream, "slow");
    else if`,
    replace: `    if`,
  }),
  bug("stream-outlives-its-key", "a stream goes on although its key was revoked", stream, {
    find: `    if (verdict === "refused") end(stream, "revoked");
`,
    replace: "",
  }),
];
