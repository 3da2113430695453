// Appends a row to the track record of repeated tests; without numbers it only says whether a row could be written. Asked by
// scripts/run-tests.mjs: node --import tsx scripts/record-repeated-tests.ts [COMMAND ROUNDS PASSED FAILED]
import { join } from "node:path";
import { appendTrackRecord, dayOf, readSourceVersion, TrackRecordError } from "../proof/track-record.ts";

const root = join(import.meta.dirname, "..");
const [command, ...numbers] = process.argv.slice(2);

try {
  const { commit, src } = readSourceVersion(root, ["src", "test", "proof", "scripts"], "refused");
  if (command !== undefined) {
    const [rounds = 0, passed = 0, failed = 0] = numbers.map(Number);
    const row = { date: dayOf(Date.now()), commit, src, command, rounds, passed, failed };
    appendTrackRecord(root, "repeated tests", row);
  }
} catch (error) {
  if (!(error instanceof TrackRecordError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
