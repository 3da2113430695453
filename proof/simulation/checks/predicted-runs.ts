// Workflows over the whole language whose end is known beforehand: what their workers answer, and how their runs must end.
import {
  readRunProgress,
  readStepRecord,
  shownStatus,
  untouched,
} from "../../../src/domain/engine/records.ts";
import type { JsonValue } from "../../../src/domain/fingerprint.ts";
import { parseJobId } from "../../../src/domain/job.ts";
import { isTerminal } from "../../../src/domain/run.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import { type DrawnWorkflows, drawWorkflows } from "../../reference/draw-workflow.ts";
import { interpret } from "../../reference/interpret.ts";
import { linksOf, retriesOf } from "../../reference/language.ts";
import { type Attempt, childPath, type Oracle, outputOf } from "../../reference/oracle.ts";
import type { RunPicture } from "../../reference/picture.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold, Violation } from "../invariants/violation.ts";
import { topics } from "../people/workflow-shapes.ts";
import type { JournaledRecords } from "./journaled-records.ts";
import type { KnownRun, KnownState } from "./known-state.ts";
import { rerunOf } from "./rerun-checks.ts";

/** The workflow that starts the others. */
export const predictedId = "told";

type ForetoldAnswer =
  | { readonly outcome: "succeeded"; readonly output: Readonly<Record<string, JsonValue>> }
  | { readonly outcome: "failed" | "failed_retryable" };

export class PredictedRuns {
  readonly #known: KnownState;
  readonly #records: JournaledRecords;
  readonly #marks: Marks;
  readonly #drawn = new Map<TenantId, DrawnWorkflows>();
  /** Attempts that were reported as failed for now, by step. */
  readonly #unwell = new Map<string, Set<number>>();

  constructor(known: KnownState, records: JournaledRecords, marks: Marks) {
    this.#known = known;
    this.#records = records;
    this.#marks = marks;
  }

  /** Draws the workflows of a tenant: no time limits and no races, because here time is part of the chaos. */
  draw(tenant: TenantId, random: SeededRandom): readonly JsonValue[] {
    const drawn = drawWorkflows(random, predictedId, {
      rootsMax: 4,
      childWorkflows: 1,
      races: false,
      mayDoWithout: true,
      timeouts: false,
      moodyRate: 0.2,
      delaySec: 0.05,
      topics,
    });
    this.#drawn.set(tenant, drawn);
    return [...drawn.library.values()] as unknown as readonly JsonValue[];
  }

  /** What a worker answers; undefined for jobs of other workflows. */
  answer(jobId: string, input: string): ForetoldAnswer | undefined {
    const parts = parseJobId(jobId);
    const run = parts === undefined ? undefined : this.#known.run(parts.runId);
    const drawn = run === undefined ? undefined : this.#drawn.get(run.tenant);
    const text = run === undefined ? undefined : drawn?.library.get(run.workflow);
    if (parts === undefined || run === undefined || drawn === undefined || text === undefined)
      return undefined;
    const id = parts.step.replace(/\[\d+\]$/, "");
    const mood = drawn.moods.get(`${run.workflow}/${id}`)?.kind ?? "good";
    if (mood === "failing") return { outcome: "failed" };
    const name = `${parts.runId}:${parts.step}`;
    const unwell = this.#unwell.get(name) ?? new Set();
    // Never more often than it is tried again, so that it is done in the end.
    const mayFail = unwell.has(parts.attempt) || unwell.size < retriesOf(text.steps[id] ?? {});
    if (mood === "moody" && mayFail) {
      this.#unwell.set(name, unwell.add(parts.attempt));
      return { outcome: "failed_retryable" };
    }
    const given = outputOf({ run: "", step: parts.step, attempt: 1 }, JSON.parse(input) as JsonValue);
    return { outcome: "succeeded", output: given as Readonly<Record<string, JsonValue>> };
  }

  /** Steps inside a loop begin again after they have ended. */
  repeats(runId: string, step: string): boolean {
    const run = this.#known.run(runId);
    const text = run === undefined ? undefined : this.#drawn.get(run.tenant)?.library.get(run.workflow);
    if (text === undefined) return false;
    const { steps, controllers } = linksOf(text);
    for (let name: string | undefined = step.replace(/\[\d+\]$/, ""); name !== undefined; ) {
      name = controllers.get(name);
      if (name !== undefined && steps[name]?.type === "loop") return true;
    }
    return false;
  }

  /** To be called when everything has ended: every run that nobody disturbed came to the end that was predicted. */
  check(): void {
    for (const run of this.#known.runs()) {
      if (run.parent === undefined && run.workflow === predictedId) this.#checkTree(run);
    }
  }

  #checkTree(root: KnownRun): void {
    const runs = new Map<string, KnownRun>([["", root]]);
    for (const [path, above] of runs) {
      for (const child of this.#known.childrenOf(above.runId)) {
        if (child.parent === undefined) continue;
        const { step, attempt } = child.parent;
        const childAt = childPath({ run: path, step, attempt });
        mustHold(!runs.has(childAt), "children", () => `${childAt} of ${root.runId} was started twice`);
        runs.set(childAt, child);
      }
    }
    if ([...runs.values()].some((run) => this.#isDisturbed(run))) return;
    const drawn = this.#drawn.get(root.tenant);
    const input = this.#records.get("runRecord", `${root.tenant}/${root.runId}`, "input")?.body;
    if (drawn === undefined || input === undefined) return;
    const oracle = this.#oracleAfterwards(drawn, runs);
    const pictures = interpret(drawn.library, predictedId, JSON.parse(input) as JsonValue, oracle);
    this.#marks.hit("run_foretold");
    if (runs.size > 1) this.#marks.hit("child_run_foretold");
    for (const [path, picture] of pictures) this.#checkRun(path, runs.get(path), picture);
    for (const path of runs.keys()) {
      mustHold(pictures.has(path), "children", () => `run ${path} of ${root.runId} should never have begun`);
    }
  }

  /** Cancelled, gone, or with an entry set aside or too many silent workers: then its end is not predicted. */
  #isDisturbed(run: KnownRun): boolean {
    const { removed, poisoned, claimsLost, unpaid, retried, cancelRequested } = run;
    if (removed || poisoned || claimsLost || unpaid || retried || cancelRequested !== undefined) return true;
    const scope = `${run.tenant}/${run.runId}`;
    const isUnreadable = this.#records.get("runRecord", scope, "run") === undefined;
    return isUnreadable || rerunOf(this.#records, run) !== undefined;
  }

  /** Work goes as it was drawn; what people decided is looked up. */
  #oracleAfterwards(drawn: DrawnWorkflows, runs: ReadonlyMap<string, KnownRun>): Oracle {
    const moodOf = ({ run, step }: Attempt) =>
      drawn.moods.get(`${runs.get(run)?.workflow}/${step.replace(/\[\d+\]$/, "")}`)?.kind;
    return {
      work: (place, input) =>
        moodOf(place) === "failing" ? { kind: "failed" } : { kind: "output", output: outputOf(place, input) },
      decide: ({ run, step, attempt }) => {
        const { tenant, runId } = runs.get(run) ?? {};
        const state = this.#records.get("approval", tenant ?? "", `${runId}:${step}@${attempt}`)?.state;
        return state === "approved" || state === "rejected" ? state : "never";
      },
    };
  }

  #checkRun(path: string, run: KnownRun | undefined, picture: RunPicture): void {
    if (run === undefined) throw new Violation("children", `run ${path} of ${predictedId} was never started`);
    const { tenant, runId, status } = run;
    mustHold(isTerminal(status), "INV-3", () => `${runId} is ${status}`);
    const scope = `${tenant}/${runId}`;
    const state = readRunProgress(this.#records.get("runRecord", scope, "run")?.body ?? "{}");
    const seen: Record<string, string> = {};
    for (const [id, { allowed }] of picture.steps) {
      const body = this.#records.get("runRecord", scope, `step/${id}`)?.body;
      const record = body === undefined ? untouched : readStepRecord(body);
      const shown = id.endsWith("]") ? record.status : shownStatus(record, state);
      if (!allowed.includes(shown)) seen[id] = `${shown}, not ${allowed.join(" or ")}`;
    }
    const isRight = picture.allowed.includes(status) && Object.keys(seen).length === 0;
    const what = () =>
      `${runId} (${path}) is ${status}, predicted was ${picture.allowed.join(" or ")}; ${JSON.stringify(seen)}`;
    mustHold(isRight, "reference", what);
  }
}
