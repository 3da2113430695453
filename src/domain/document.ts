// Named texts that a tenant keeps: definitions and what lists them, keys, dead letters. The store never looks inside.
import type { StoreQuotaName } from "./quota.ts";

const collections = [
  "workflow",
  "definition",
  "apiKey",
  "deadLetter",
  "tenant",
  "seal",
  "refusal",
  "canary",
] as const;
export type Collection = (typeof collections)[number];

/** Changes of these are no events: seals are about events, and each would call for the next. */
const uneventful: ReadonlySet<Collection> = new Set<Collection>(["seal"]);

export function isEventful(collection: Collection): boolean {
  return !uneventful.has(collection);
}

/** Collections whose documents the tenant adds itself, one by one, and what bounds their number. */
export const collectionQuotas: { readonly [Each in Collection]?: StoreQuotaName } = {
  apiKey: "api_keys",
  workflow: "workflows",
  definition: "definitions",
};

export type Document = {
  readonly id: string;
  readonly body: string;
  /** Grows by one with every change, starting at 1. */
  readonly revision: number;
  readonly savedAtMs: number;
};
