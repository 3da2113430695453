// Checks a definition without saving it, and warns of workflows that it names and that do not exist yet.
import type { JsonValue } from "../../domain/fingerprint.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Problem } from "../../domain/workflow/compiled.ts";
import {
  type Definition,
  definitionHash,
  definitionText,
  readDefinition,
} from "../../domain/workflow/definition.ts";
import { placeIn } from "../../domain/workflow/place.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import type { Trouble, ValidateAnswer } from "../control-api.ts";
import { type Engine, storeLimits } from "../engine/engine.ts";

/** Each is a question to the store; a definition that names more is looked at as far as this. */
const lookedUpMax = 50;

export async function validateWorkflow(
  engine: Engine,
  tenant: TenantId,
  value: JsonValue,
): Promise<ValidateAnswer> {
  const reading = readDefinition(value);
  if (reading.kind === "invalid") return reading;
  const { definition } = reading;
  const warnings = await missingWorkflows(engine, tenant, definition);
  if (warnings.kind !== "warnings") return warnings;
  const hash = definition.id === undefined ? {} : { hash: definitionHash(definitionText(value)) };
  return { kind: "valid", steps: definition.steps.size, ...hash, warnings: warnings.problems };
}

type Warnings = { readonly kind: "warnings"; readonly problems: readonly Problem[] };

async function missingWorkflows(
  engine: Engine,
  tenant: TenantId,
  { steps }: Definition,
): Promise<Warnings | Trouble> {
  const named = [...steps.values()].flatMap(({ id, subworkflow }) =>
    subworkflow === undefined ? [] : [{ step: id, workflow: subworkflow.workflow }],
  );
  const missing = new Set<string>();
  for (const workflow of [...new Set(named.map((one) => one.workflow))].slice(0, lookedUpMax)) {
    const answer = await askUntilKnown(
      engine.ports,
      "getDocument",
      storeLimits(engine.config),
      (deadlineMs) =>
        engine.ports.store.getDocument({ tenant, collection: "workflow", id: workflow }, { deadlineMs }),
    );
    if (answer.kind === "not_found") missing.add(workflow);
    else if (answer.kind !== "document") return { kind: answer.kind, cause: answer.cause };
  }
  const problems = named.flatMap(({ step, workflow }) =>
    missing.has(workflow)
      ? [
          {
            path: `${placeIn("steps", step)}.input.workflow_id`,
            message: `there is no workflow "${workflow}" yet; a run that gets here before there is one fails`,
          },
        ]
      : [],
  );
  return { kind: "warnings", problems };
}
