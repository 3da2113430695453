// A dispatch check that tests answer by hand or by script, and runs of high risk that wait for it.
import type { DispatchAnswer, DispatchJob } from "../../src/domain/dispatch.ts";
import type { JobId } from "../../src/domain/job.ts";
import type { RunId } from "../../src/domain/run.ts";
import type { Explanation } from "../../src/domain/why/explanation.ts";
import type { Bus, BusStream } from "../../src/ports/bus.ts";
import type { DispatchCheck } from "../../src/ports/ports.ts";
import { acme, type FlowPlane, FlowWorld, only, type PlaneOptions, type Steps, work } from "./flow-world.ts";

type Question = {
  readonly job: DispatchJob;
  readonly signal: AbortSignal;
  readonly atMs: number;
  answer(answer: unknown): void;
};

/** What a check says: an answer, something that is none, an error to throw, or nothing until the test answers. */
export type Saying = DispatchAnswer | Error | "silence" | { readonly garbage: unknown };

export type ScriptedCheck = {
  readonly check: DispatchCheck;
  /** All that was asked, oldest first. */
  readonly questions: readonly Question[];
  /** From now on the check says this; a list is said one after the other, the last for ever. */
  says(...sayings: readonly Saying[]): void;
};

export function scriptedCheck(flow: FlowWorld, ...first: readonly Saying[]): ScriptedCheck {
  const questions: Question[] = [];
  let script = [...first];
  return {
    questions,
    says: (...sayings) => {
      script = [...sayings];
    },
    check: (job, { signal }) =>
      new Promise((resolve, reject) => {
        const answer = (value: unknown) => resolve(value as DispatchAnswer);
        questions.push({ job, signal, atMs: flow.nowMs(), answer });
        const saying = (script.length > 1 ? script.shift() : script[0]) ?? "silence";
        if (saying === "silence") return;
        if (saying instanceof Error) reject(saying);
        else answer("garbage" in saying ? saying.garbage : saying);
      }),
  };
}

export type DispatchScene = {
  readonly flow: FlowWorld;
  readonly plane: FlowPlane;
  readonly check: ScriptedCheck;
  /** What was published, by stream. */
  readonly published: ReadonlyArray<{ readonly stream: BusStream; readonly subject: string }>;
};

/** A process with a check that says this, and the workflow `w` of high risk. */
export async function dispatchScene(
  sayings: readonly Saying[],
  options: Omit<PlaneOptions, "dispatchCheck"> & { readonly steps?: Steps; readonly flow?: FlowWorld } = {},
): Promise<DispatchScene> {
  const { steps = { a: work() }, flow = new FlowWorld(), ...rest } = options;
  const check = scriptedCheck(flow, ...sayings);
  const published: Array<{ stream: BusStream; subject: string }> = [];
  const plane = await flow.open("p", {
    ...rest,
    bus: watched(rest.bus ?? flow.bus(), published),
    dispatchCheck: check.check,
  });
  await plane.save("w", steps, { risk: "high" });
  return { flow, plane, check, published };
}

function watched(bus: Bus, published: Array<{ stream: BusStream; subject: string }>): Bus {
  return {
    ...bus,
    publish(stream, message) {
      published.push({ stream, subject: message.subject });
      return bus.publish(stream, message);
    },
  };
}

export const jobOf = (runId: RunId, name = "a@1"): JobId => `${runId}:${name}` as JobId;

/** The entries about held jobs that a process has tried to deliver. */
export function verdictsSent({ member }: FlowPlane): readonly string[] {
  return member.callsOf("deliver").flatMap(({ request }) => {
    const entry = "entry" in request ? request.entry : undefined;
    return entry?.kind === "dispatch" ? [entry.verdict] : [];
  });
}

export async function why(
  { flow, plane }: Pick<DispatchScene, "flow" | "plane">,
  runId: RunId,
): Promise<Explanation> {
  return only(await flow.finish(plane.api.explainRun({ tenant: acme, runId })), "explained").explanation;
}
