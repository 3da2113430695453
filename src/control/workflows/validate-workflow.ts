// Checks a definition without saving it, and warns of workflows that it names and that do not exist yet.
import type { TenantId } from "../../domain/tenant.ts";
import type { SentDefinition, Verdict } from "../../domain/workflow/judge.ts";
import type { PlacedProblem } from "../../domain/workflow/yaml-text.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import type { ValidateAnswer } from "./workflow-api.ts";

/** Each is a question to the store; a definition that names more is looked at as far as this. */
const lookedUpMax = 50;

export async function validateWorkflow(
  engine: Engine,
  tenant: TenantId,
  sent: SentDefinition,
): Promise<ValidateAnswer> {
  const verdict = await engine.judge.judge(tenant, sent);
  if (verdict.kind !== "valid") return verdict;
  const { runs, steps, hash, isNamed } = verdict;
  const warnings = await missingWorkflows(engine, tenant, runs);
  if (warnings.kind !== "warnings") return warnings;
  return { kind: "valid", steps, ...(isNamed ? { hash } : {}), warnings: warnings.problems };
}

type Warnings = { readonly kind: "warnings"; readonly problems: readonly PlacedProblem[] };

async function missingWorkflows(
  engine: Engine,
  tenant: TenantId,
  named: (Verdict & { readonly kind: "valid" })["runs"],
): Promise<Warnings | Trouble> {
  const missing = new Set<string>();
  for (const workflow of [...new Set(named.map((one) => one.workflow))].slice(0, lookedUpMax)) {
    const answer = await ask(engine, "getDocument", { tenant, collection: "workflow", id: workflow });
    if (answer.kind === "not_found") missing.add(workflow);
    else if (answer.kind !== "document") return { kind: answer.kind, cause: answer.cause };
  }
  const problems = named.flatMap(({ workflow, ...place }) => {
    if (!missing.has(workflow)) return [];
    const message = `there is no workflow "${workflow}" yet; a run that gets here before there is one fails`;
    return [{ ...place, message }];
  });
  return { kind: "warnings", problems };
}
