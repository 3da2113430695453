// Answers of every operation, whole, against those on file: a member that is lost, renamed or of another value is noticed.
// WRITE_ANSWERS=1 writes the files anew: the difference is what clients will see.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { policiesAndRecords, poolsLocksAndTenants } from "../support/answer-questions-of-care.ts";
import { definitionsAndRuns, jobsAndDecisions } from "../support/answer-questions-of-runs.ts";
import { answersTo, type Question } from "../support/answer-script.ts";
import { type GatewayWorld, openGatewayWorld } from "../support/gateway-world.ts";

const folder = join(import.meta.dirname, "../fixtures/answers");

async function expectAnswers(name: string, questions: readonly Question[]): Promise<void> {
  const world = await openGatewayWorld();
  try {
    const answers = { ...(await answersTo(world, questions)), "what was counted": await countedIn(world) };
    const path = join(folder, `${name}.json`);
    if (process.env.WRITE_ANSWERS !== undefined) writeFileSync(path, `${JSON.stringify(answers, null, 1)}\n`);
    expect(answers).toEqual(JSON.parse(readFileSync(path, "utf8")));
  } finally {
    await world.close();
  }
}

/** Parts of histograms, and what a slow machine counts or counts again. */
const differing =
  /_bucket|_sum|event_loop|seal|sweep|published|handoff|drain|connection|retries|hints|store_|samples/;

/** The series that have a value, with their labels; how large it is depends on the machine. */
async function countedIn(world: GatewayWorld): Promise<readonly string[]> {
  const { text } = await world.ask("GET", "/metrics", { key: world.platform });
  const series = text.split("\n").flatMap((line) => {
    const [, name = "", value] = /^(interlock_[^#]+) (\S+)$/.exec(line) ?? [];
    return value === undefined || value === "0" || differing.test(name) ? [] : [name];
  });
  return series.sort();
}

test("definitions and runs", () => expectAnswers("definitions-and-runs", definitionsAndRuns));
test("jobs, dead letters and approvals", () => expectAnswers("jobs-and-decisions", jobsAndDecisions));
test("pools, locks, tenants and keys", () => expectAnswers("pools-locks-and-tenants", poolsLocksAndTenants));
test("policies, canaries, events and the audit trail", () =>
  expectAnswers("policies-and-records", policiesAndRecords));
