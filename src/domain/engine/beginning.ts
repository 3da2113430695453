// A step that is about to begin, with all that its expressions may read.
import type { Draft } from "./draft.ts";
import type { EnclosingScope } from "./scope.ts";
import { fail, type StepInHand } from "./settle-step.ts";

export type Beginning = StepInHand & { readonly enclosing: EnclosingScope };

/** A mistake in the definition or its data: another attempt would make it again. */
export function failToBegin(
  draft: Draft,
  inHand: StepInHand,
  message: string,
  code = "expression_failed",
): void {
  fail(draft, inHand, "failed", { error: { code, message } });
}
