// A run while the reference interprets it: what has ended so far, and what expressions see of it.
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { Links, WorkflowText } from "./language.ts";
import type { Oracle } from "./oracle.ts";
import { type Ended, type RunPicture, statusSeen } from "./picture.ts";
import type { SmallScope } from "./small-expressions.ts";

export type Story = {
  readonly library: ReadonlyMap<string, WorkflowText>;
  readonly oracle: Oracle;
  /** Every run that was started, by its path. */
  readonly runs: Map<string, RunPicture>;
  /** Does a step whose turn it is. */
  begin(interpretation: Interpretation, id: string, around: Around): Ended;
  /** Tells a whole run, from its start to its end. */
  interpretRun(asked: AskedRun): InterpretedRun;
};

/** What a rerun takes over from an earlier run. */
export type Kept = Pick<RunPicture, "ended" | "chosen">;
export type AskedRun = {
  readonly path: string;
  readonly workflow: string;
  readonly input: JsonValue;
  readonly kept?: Kept;
};
export type InterpretedRun = {
  readonly picture: RunPicture;
  readonly isStuck: boolean;
  readonly interpretation: Interpretation;
};

/** A run while it is interpreted. */
export type Interpretation = {
  readonly story: Story;
  readonly links: Links;
  readonly path: string;
  readonly input: JsonValue;
  readonly ended: Map<string, Ended>;
  readonly attempts: Map<string, number>;
  /** By switch: the step that begins. */
  readonly chosen: Map<string, string>;
  /** Those that have ended, in order, the latest last. */
  readonly order: string[];
  /** Steps whose end depends on the order of things. */
  readonly iffy: Set<string>;
};

/** What expressions know besides input, steps and ctx. */
export type Around = { readonly loop?: JsonValue; readonly item?: JsonValue; readonly index?: number };

export const failed: Ended = { kind: "broken", statuses: ["failed"] };

export function scopeOf(interpretation: Interpretation, around: Around): SmallScope {
  const steps: Record<string, JsonValue> = {};
  const ctx: Record<string, JsonValue> = {};
  for (const id of interpretation.order) {
    const ended = interpretation.ended.get(id);
    if (ended === undefined) continue;
    const output = ended.kind === "met" ? ended.output : undefined;
    steps[id] = { status: statusSeen(ended), output: output ?? null };
    if (output !== undefined) writeContext(interpretation, id, ctx, output);
  }
  // Those that were passed over have a state, and no turn of their own.
  for (const [id, ended] of interpretation.ended) steps[id] ??= { status: statusSeen(ended), output: null };
  return { input: interpretation.input, steps, ctx, ...around };
}

function writeContext(
  { links }: Interpretation,
  id: string,
  ctx: Record<string, JsonValue>,
  output: JsonValue,
): void {
  const step = links.steps[id];
  if (typeof step?.output_path === "string") ctx[step.output_path] = output;
  if (step?.type !== "storage") return;
  const { operation, key } = step.input as { readonly operation: string; readonly key: string };
  if (operation === "write") ctx[key] = output;
  if (operation === "delete") delete ctx[key];
}
