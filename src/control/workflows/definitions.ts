// Workflow definitions, compiled once: by content hash for runs that are pinned to one, by name for new runs.

import type { JsonValue } from "../../domain/fingerprint.ts";
import type { Sliced } from "../../domain/slices.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { compilingDefinition } from "../../domain/workflow/compile.ts";
import type { CompiledDefinition } from "../../domain/workflow/compiled.ts";
import { readingDefinition } from "../../domain/workflow/definition.ts";
import type { DefinitionCompiler } from "../../ports/ports.ts";
import { type Asking, ask } from "../ask-until-known.ts";
import type { Trouble } from "../caller.ts";
import { createFairCache } from "./fair-cache.ts";
import { createTurns } from "./turns.ts";

export type CurrentWorkflow = {
  readonly kind: "current";
  readonly revision: number;
  readonly hash: string;
  readonly definition: CompiledDefinition;
};
type PinnedDefinition =
  | { readonly kind: "compiled"; readonly definition: CompiledDefinition }
  /** Not there, or written by a program that knew more than this one. */
  | { readonly kind: "missing" };

type CurrentAnswer = CurrentWorkflow | { readonly kind: "not_found" } | Trouble;

export type Definitions = {
  /** What a new run of this workflow starts by; admission refuses it if the workflow has changed since. */
  current(tenant: TenantId, workflow: string): CurrentAnswer | Promise<CurrentAnswer>;
  forgetCurrent(tenant: TenantId, workflow: string): void;
  pinned(tenant: TenantId, hash: string): Promise<PinnedDefinition | Trouble>;
  /** Without asking the store. */
  remembered(tenant: TenantId, hash: string): CompiledDefinition | undefined;
};

/** What a `workflow` document says. */
export type WorkflowDocument = { readonly hash: string };

/** A compiled definition takes ten times the memory of its text: together at most some 200 MB. */
const remembered = { entriesMax: 1_000, sizeMax: 16_777_216 };

export function createDefinitions(
  asking: Asking<"getDocument">,
  compiling: DefinitionCompiler = compilingText,
): Definitions {
  const compiled = createFairCache<CompiledDefinition>(remembered);
  const current = createFairCache<Pick<CurrentWorkflow, "revision" | "hash">>(remembered);
  const underWay = new Map<string, Promise<CompiledDefinition | undefined>>();
  const turns = createTurns(asking.ports.clock);
  const read = (tenant: TenantId, collection: "workflow" | "definition", id: string) =>
    ask(asking, "getDocument", { tenant, collection, id });

  /** A small definition is compiled at once; callers that ask for the same large one wait for the same work. */
  function compile(tenant: TenantId, hash: string, text: string) {
    const key = `${tenant} ${hash}`;
    const begun = underWay.get(key);
    if (begun !== undefined) return begun;
    const made = turns.take(tenant, compiling(text));
    if (!(made instanceof Promise)) return made;
    const ending = made.finally(() => underWay.delete(key));
    underWay.set(key, ending);
    return ending;
  }

  async function pinned(tenant: TenantId, hash: string): Promise<PinnedDefinition | Trouble> {
    const known = compiled.get(tenant, hash);
    if (known !== undefined) return { kind: "compiled", definition: known };
    const answer = await read(tenant, "definition", hash);
    if (answer.kind === "not_found") return { kind: "missing" };
    if (answer.kind !== "document") return { kind: answer.kind, cause: answer.cause };
    const { body } = answer.document;
    const made = compiled.get(tenant, hash) ?? compile(tenant, hash, body);
    const definition = made instanceof Promise ? await made : made;
    if (definition === undefined) return { kind: "missing" };
    compiled.put(tenant, hash, { value: definition, size: body.length });
    return { kind: "compiled", definition };
  }

  async function readCurrent(tenant: TenantId, workflow: string): Promise<CurrentAnswer> {
    const answer = await read(tenant, "workflow", workflow);
    if (answer.kind === "not_found") return answer;
    if (answer.kind !== "document") return { kind: answer.kind, cause: answer.cause };
    const { hash } = JSON.parse(answer.document.body) as WorkflowDocument;
    const found = await pinned(tenant, hash);
    if (found.kind === "missing") return { kind: "not_found" };
    if (found.kind !== "compiled") return found;
    const { revision } = answer.document;
    current.put(tenant, workflow, { value: { revision, hash }, size: workflow.length });
    return { kind: "current", revision, hash, definition: found.definition };
  }

  return {
    pinned,
    remembered: (tenant, hash) => compiled.get(tenant, hash),
    forgetCurrent: (tenant, workflow) => current.delete(tenant, workflow),
    current(tenant, workflow) {
      const known = current.get(tenant, workflow);
      const definition = known === undefined ? undefined : compiled.get(tenant, known.hash);
      if (known === undefined || definition === undefined) return readCurrent(tenant, workflow);
      return { kind: "current", revision: known.revision, hash: known.hash, definition };
    },
  };
}

/** It was judged when it was saved, by the rules of then. */
export function* compilingText(text: string): Sliced<CompiledDefinition | undefined> {
  const reading = yield* readingDefinition(JSON.parse(text) as JsonValue, "stored");
  if (reading.kind === "invalid" || reading.definition.id === undefined) return undefined;
  return yield* compilingDefinition(reading.definition.id, reading.definition);
}
