// Without the store nothing is decided: no definite answer to a flow that heard nothing, and no call repeated without an end (INV-29).
import type { Answer, OperationName } from "../../../src/ports/store.ts";
import type { SimulatedProcess } from "../../../src/testing/simulated-process.ts";
import type { StoreCall } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";

/** Answers that say nothing about what is stored. */
const indefinite = new Set([
  ...["concurrency_gate_unavailable", "outcome_unknown", "request_cancelled"],
  ...["unavailable", "unknown", "no_answer"],
]);

/**
 * Repeats of one call in vain. Tries are 10 to 160 ms apart, at half of that on average, and budgets are at most 1.5 s here:
 * 600 seeds made at most 22 of them. Without a pause it is a hundred and more.
 */
const vainRepeatsMax = 60;

export class FailClosedChecks {
  readonly #marks: Marks;
  readonly #nowMs: () => number;
  /** When each process last heard something definite from the store. */
  readonly #heardAtMs = new Map<string, number>();
  /** The runs that the store has said to exist, by whom it told. */
  readonly #toldRuns = new Set<string>();
  /** Calls without an answer that says anything, by what makes them one call. */
  readonly #inVain = new Map<string, number>();

  constructor(nowMs: () => number, marks: Marks) {
    this.#nowMs = nowMs;
    this.#marks = marks;
  }

  /** To be called when a process has heard from the store, or that it will not. */
  observeAnswer(call: StoreCall, answer: Answer<OperationName>): void {
    if (answer.kind !== "unknown" && answer.kind !== "unavailable") {
      this.#heardAtMs.set(call.caller, this.#nowMs());
      if (answer.kind === "admitted") this.#toldRuns.add(`${call.caller} ${answer.runId}`);
      return;
    }
    const identity = identityOf(call);
    if (identity === undefined) return;
    const key = `${call.caller} ${call.name} ${identity}`;
    const repeats = (this.#inVain.get(key) ?? 0) + 1;
    this.#inVain.set(key, repeats);
    mustHold(
      repeats <= vainRepeatsMax,
      "INV-29",
      () => `${call.caller} sent ${call.name} ${repeats} times in vain`,
    );
  }

  /** To be called when a flow begins; what it gives back is to be called with the flow's answer. */
  begin({ name }: SimulatedProcess, flow: string): (answer: FlowAnswer) => void {
    const begunAtMs = this.#nowMs();
    return (answer) => {
      const heard =
        answer.kind === "admitted"
          ? this.#toldRuns.has(`${name} ${answer.runId}`)
          : (this.#heardAtMs.get(name) ?? -1) >= begunAtMs;
      if (!heard && indefinite.has(answer.kind)) this.#marks.hit("answered_without_store");
      mustHold(
        heard || indefinite.has(answer.kind),
        "INV-29",
        () => `${flow} of ${name} was answered ${answer.kind}, but the store has not answered ${name} since`,
      );
    };
  }
}

type FlowAnswer = { readonly kind: string; readonly runId?: string };

/** What makes a repeat a repeat: the identity that the store recognises it by. */
function identityOf({ name, request }: StoreCall): string | undefined {
  if (name === "admit" || name === "createRun") return request.run.runId;
  if (name === "reserve" || name === "cancelReservation") return request.runId;
  if (name === "commit") return request.commitId;
  if (name === "deliver") return `${request.entry.entryId} ${request.take.token}`;
  if (name === "takeRun") return request.take.token;
  return name === "acquireLock" || name === "releaseLock" ? request.token : undefined;
}
