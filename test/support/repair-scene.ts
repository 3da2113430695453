// What tests of repairs share: a run that fails, its letters retried, and what must hold of a run whatever was mended in it.
import { expect } from "vitest";
import { orderedNumber } from "../../src/adapters/operations/records.ts";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { InboxEntry } from "../../src/domain/inbox.ts";
import type { RunId } from "../../src/domain/run.ts";
import {
  acme,
  ann,
  type FlowPlane,
  FlowWorld,
  type Overrides,
  only,
  type Steps,
  work,
} from "./flow-world.ts";

const call = { deadlineMs: 100 };

export type Scene = { readonly flow: FlowWorld; readonly plane: FlowPlane; readonly runId: RunId };

/** A run of these steps; its tenant has one slot, so that a slot that is lost or taken twice is felt at once. */
export async function startScene(
  steps: Steps,
  { input = {}, overrides = {} }: { readonly input?: JsonValue; readonly overrides?: Overrides } = {},
): Promise<Scene> {
  const flow = new FlowWorld();
  await flow.tenant({ maxConcurrentRuns: 1 });
  const plane = await flow.open("p", { overrides });
  await plane.save("w", steps);
  return { flow, plane, runId: await plane.start("w", input) };
}

/** Takes every job that comes up within a second and gives each its end. */
export async function workOff(
  { plane }: Scene,
  end: (job: ClaimedJob) => "succeeded" | "failed_retryable" | "kept",
): Promise<readonly string[]> {
  const seen: string[] = [];
  for (;;) {
    const jobs = await plane.poll({ waitMs: 1_000, leaseMs: 600_000 });
    if (jobs.length === 0) return seen;
    for (const job of jobs) {
      seen.push(`${job.job.step}@${job.job.attempt}`);
      const ended = end(job);
      if (ended === "succeeded") await plane.report(job);
      if (ended === "failed_retryable") await plane.fail(job, "failed_retryable");
    }
  }
}

export function retry({ flow, plane }: Scene, id: string) {
  return flow.finish(plane.api.retryDeadLetter({ caller: ann, id }));
}

/** Letter by letter, whether it was retried. */
export async function letterStates({ flow }: Scene): Promise<Readonly<Record<string, "open" | "retried">>> {
  const asked = { tenant: acme, collection: "deadLetter", after: "", limit: 100 } as const;
  const { documents } = only(await flow.world.store.listDocuments(asked, call), "listed");
  return Object.fromEntries(documents.map(({ id, revision }) => [id, revision > 1 ? "retried" : "open"]));
}

/** The run as it ends: its slot is free, nothing of it waits, nobody owns it, and it stays like that. */
export async function expectEnd(scene: Scene, status: string): Promise<void> {
  const { flow, runId } = scene;
  expect(await flow.ended(runId)).toBe(status);
  await expectNothingLeft(scene);
  const header = await flow.header(runId);
  await flow.pass(30_000);
  expect(await flow.header(runId)).toEqual(header);
}

async function expectNothingLeft({ flow, runId }: Scene): Promise<void> {
  const { records } = flow.world;
  const state = records.get("run", acme, runId);
  expect([state?.entriesWaiting, state?.retryLetters]).toEqual([0, undefined]);
  expect([...records.all("active")].filter(({ member }) => member.endsWith(runId))).toEqual([]);
  const open = [...records.all("job")].filter(
    ({ value }) => value.runId === runId && ["held", "ready", "claimed"].includes(value.state),
  );
  expect(open.map(({ member }) => member)).toEqual([]);
  const timers = [...records.all("timer")].filter(({ scope }) => scope.includes(runId));
  expect(timers.map(({ member }) => member)).toEqual([]);
  expect(await flow.isLocked(runId)).toBe(false);
}

/** Puts an entry into the inbox as five owners in vain would leave it; whoever takes the run next applies it. */
export function poison({ flow, runId }: Scene, was: InboxEntry): void {
  const { records } = flow.world;
  const state = records.get("run", acme, runId);
  if (state === undefined) throw new Error("there is no such run");
  const entriesAppended = state.entriesAppended + 1;
  const entry = { kind: "poisoned", entryId: was.entryId, was: JSON.stringify(was) } as const;
  records.put("inbox", `${acme}/${runId}`, orderedNumber(entriesAppended), entry);
  records.put("run", acme, runId, { ...state, entriesAppended, entriesWaiting: state.entriesWaiting + 1 });
}

/** Worker steps of these names, none of which depends on another. */
export function beside(...names: readonly string[]): Steps {
  return Object.fromEntries(names.map((name) => [name, work()]));
}

export async function countOf({ flow, runId }: Scene, event: string): Promise<number> {
  return (await flow.events(runId)).filter((each) => each === event).length;
}
