// Workflows: saved, checked, read and removed.
import type { Caller } from "../caller.ts";
import type { Common, Success } from "../contract.ts";
import { type Listing, listing } from "../pages.ts";

/** An object as JSON, a text as YAML. What `defineWorkflow` gives is an object, too. */
export type Definition = object | string;

export type Workflow = Success<"getWorkflow">;

export type Workflows = {
  /** Creates it, or replaces the one with the same id. */
  save(definition: Definition, options?: Common): Promise<Success<"saveWorkflow">>;
  /** All problems at once, with their places; nothing is saved. */
  validate(definition: Definition, options?: Common): Promise<Success<"validateWorkflow">>;
  get(id: string, options?: Common): Promise<Workflow>;
  list(options?: Common & { readonly limit?: number | undefined }): Listing<Workflow>;
  /** Runs that were started go on with the definition they have. */
  remove(id: string, options?: Common): Promise<void>;
};

export function workflowsOf(caller: Caller): Workflows {
  return {
    save: (definition, options) => caller.call("saveWorkflow", { ...bodyOf(definition), ...options }),
    validate: (definition, options) => caller.call("validateWorkflow", { ...bodyOf(definition), ...options }),
    get: (id, options) => caller.call("getWorkflow", { params: { id }, ...options }),
    list: ({ limit, ...options } = {}) =>
      listing((cursor) => caller.call("listWorkflows", { query: pageOf(limit, cursor), ...options })),
    remove: async (id, options) => {
      await caller.call("removeWorkflow", { params: { id }, ...options });
    },
  };
}

function bodyOf(definition: Definition) {
  if (typeof definition === "string") return { body: definition, mediaType: "application/yaml" };
  // What is sent is what JSON makes of it.
  return { body: definition as Record<string, never> };
}

export function pageOf(limit: number | undefined, cursor: string | undefined) {
  return { ...(limit === undefined ? {} : { limit }), ...(cursor === undefined ? {} : { cursor }) };
}
