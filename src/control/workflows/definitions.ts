// Workflow definitions, compiled once: by content hash for runs that are pinned to one, by name for new runs.

import type { Config } from "../../config.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { compileDefinition } from "../../domain/workflow/compile.ts";
import type { CompiledDefinition } from "../../domain/workflow/compiled.ts";
import { readDefinition } from "../../domain/workflow/definition.ts";
import type { Ports } from "../../ports/ports.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import type { Trouble } from "../control-api.ts";

export type CurrentWorkflow = {
  readonly kind: "current";
  readonly revision: number;
  readonly hash: string;
  readonly definition: CompiledDefinition;
};
export type PinnedDefinition =
  | { readonly kind: "compiled"; readonly definition: CompiledDefinition }
  /** Not there, or written by a program that knew more than this one. */
  | { readonly kind: "missing" };

export type Definitions = {
  /** What a new run of this workflow starts by; admission refuses it if the workflow has changed since. */
  current(
    tenant: TenantId,
    workflow: string,
  ): Promise<CurrentWorkflow | { readonly kind: "not_found" } | Trouble>;
  forgetCurrent(tenant: TenantId, workflow: string): void;
  pinned(tenant: TenantId, hash: string): Promise<PinnedDefinition | Trouble>;
  /** Without asking the store. */
  remembered(tenant: TenantId, hash: string): CompiledDefinition | undefined;
};

/** What a `workflow` document says. */
export type WorkflowDocument = { readonly hash: string };

/** Bounds the memory; when full all are forgotten and simply read again. */
const rememberedMax = 1_000;

export function createDefinitions(ports: Ports, config: Config): Definitions {
  const compiled = new Map<string, CompiledDefinition>();
  const current = new Map<string, CurrentWorkflow>();
  const limits = {
    callTimeoutMs: config["store.callTimeoutMs"],
    budgetMs: 2 * config["store.callTimeoutMs"],
  };
  const read = (tenant: TenantId, collection: "workflow" | "definition", id: string) =>
    askUntilKnown(ports, "getDocument", limits, (deadlineMs) =>
      ports.store.getDocument({ tenant, collection, id }, { deadlineMs }),
    );
  const keyOf = (tenant: TenantId, name: string) => `${tenant} ${name}`;

  async function pinned(tenant: TenantId, hash: string): Promise<PinnedDefinition | Trouble> {
    const known = compiled.get(keyOf(tenant, hash));
    if (known !== undefined) return { kind: "compiled", definition: known };
    const answer = await read(tenant, "definition", hash);
    if (answer.kind === "not_found") return { kind: "missing" };
    if (answer.kind !== "document") return { kind: answer.kind, cause: answer.cause };
    const definition = compileText(answer.document.body);
    if (definition === undefined) return { kind: "missing" };
    if (compiled.size >= rememberedMax) compiled.clear();
    compiled.set(keyOf(tenant, hash), definition);
    return { kind: "compiled", definition };
  }

  return {
    pinned,
    remembered: (tenant, hash) => compiled.get(keyOf(tenant, hash)),
    forgetCurrent: (tenant, workflow) => void current.delete(keyOf(tenant, workflow)),
    async current(tenant, workflow) {
      const known = current.get(keyOf(tenant, workflow));
      if (known !== undefined) return known;
      const answer = await read(tenant, "workflow", workflow);
      if (answer.kind === "not_found") return answer;
      if (answer.kind !== "document") return { kind: answer.kind, cause: answer.cause };
      const { hash } = JSON.parse(answer.document.body) as WorkflowDocument;
      const found = await pinned(tenant, hash);
      if (found.kind === "missing") return { kind: "not_found" };
      if (found.kind !== "compiled") return found;
      const { revision } = answer.document;
      const fresh = { kind: "current", revision, hash, definition: found.definition } as const;
      if (current.size >= rememberedMax) current.clear();
      current.set(keyOf(tenant, workflow), fresh);
      return fresh;
    },
  };
}

function compileText(text: string): CompiledDefinition | undefined {
  const reading = readDefinition(JSON.parse(text) as JsonValue, "stored");
  if (reading.kind === "invalid" || reading.definition.id === undefined) return undefined;
  return compileDefinition(reading.definition.id, reading.definition);
}
