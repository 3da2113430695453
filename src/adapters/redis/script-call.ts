// What an operation needs to become a script call and back: keys, arguments, and how to read the reply.
import { type Guard, grantMemoryMs } from "../../domain/lock.ts";
import { InterlockError } from "../../errors.ts";
import type { OperationName, OutcomeOf, RequestOf, StoreSettings } from "../../ports/store.ts";
import type { PartitionKeys, TenantKeys } from "./keys.ts";

/** Calls that share a script call with others of the same kind, when they are asked in the same turn (see gather-calls.ts). */
export type GatheredName = "admit" | "deliver" | "commit";

export type GatheredCall<Name extends GatheredName> = Pick<ScriptCall<Name>, "read"> & {
  /** Adds the arguments of an item, in the order of the script's header, after `notAfterMs`. */
  push(args: string[], request: RequestOf<Name>, keys: TenantKeys): void;
};

/** What scripts answer: the kind of the outcome, the store's time, then the outcome's fields. */
export type Reply = readonly [kind: string, storeTimeMs: string, ...fields: unknown[]];

/** The sweep works on a partition, a look for what is due begins with one, everything else works on a tenant. */
export type OwnerKeys<Name extends OperationName> = Name extends "sweep" | "findDue"
  ? PartitionKeys
  : TenantKeys;

export type ScriptCall<Name extends OperationName> = {
  /** In the order of the script's header. */
  keys(keys: OwnerKeys<Name>, request: RequestOf<Name>): string[];
  /** In the order of the script's header, after `notAfterMs`. */
  args(request: RequestOf<Name>, settings: StoreSettings): string[];
  /** How the fields of an outcome are read, by its kind. Without an entry they are names and values in turn. */
  readonly read?: {
    readonly [Kind in OutcomeOf<Name>["kind"]]?: (
      fields: Fields,
      request: RequestOf<Name>,
      nowMs: number,
    ) => Omit<Extract<OutcomeOf<Name>, { readonly kind: Kind }>, "kind">;
  };
};

export type ScriptCalls<Names extends OperationName> = { readonly [Name in Names]: ScriptCall<Name> };

/** What a script gives with an outcome: each reader knows the types of its own. */
export type Fields = readonly unknown[];

export function parseReply<Name extends OperationName>(
  { read }: Pick<ScriptCall<Name>, "read">,
  [kind, now, ...fields]: Reply,
  request: RequestOf<Name>,
): OutcomeOf<Name> {
  const readFields = read?.[kind as OutcomeOf<Name>["kind"]];
  const known = readFields === undefined ? named(fields) : readFields(fields, request, Number(now));
  return { kind, ...known } as OutcomeOf<Name>;
}

function named(fields: Fields): Readonly<Record<string, unknown>> {
  const values: Record<string, unknown> = {};
  for (let at = 0; at < fields.length; at += 2) values[String(fields[at])] = fields[at + 1];
  return values;
}

/** Scripts keep several values in one string, separated by spaces. */
export function word(what: string, value: string): string {
  if (/^\S+$/.test(value)) return value;
  throw new InterlockError("invalid_request", `the ${what} is empty or holds a space`);
}

/** For values that scripts only compare and never give back: any text becomes a word of its own. */
export function opaqueWord(what: string, value: string): string {
  return /^[^\s%]+$/.test(value) ? value : word(what, encodeURIComponent(value));
}

/** Any text as one word that can be read back: its JSON, in which a space becomes a character that JSON never holds. */
export function jsonWord(text: string): string {
  return JSON.stringify(text).replaceAll(" ", spaceInWord);
}

export function textOfWord(wordOfText: string): string {
  return JSON.parse(wordOfText.replaceAll(spaceInWord, " ")) as string;
}

export const spaceInWord = "\u0001";

/** What a script cannot do without is a word; what is absent is a dash. */
export function optionalWord(text: string | undefined): string {
  return text === undefined ? "-" : jsonWord(text);
}

/** Scripts look for it between two spaces in the tenant's revoked keys; requests of the control plane itself act for none. */
export function credentialWord(credential: string | undefined): string {
  return credential === undefined ? "" : jsonWord(credential);
}

/** A point in time or a span that may be zero. */
export function wholeMs(what: string, ms: number): string {
  if (Number.isSafeInteger(ms) && ms >= 0) return String(ms);
  throw new InterlockError("invalid_request", `${what} must be a whole number of milliseconds`);
}

/** Redis refuses to expire a key after a broken number of milliseconds, or at once. */
export function duration(what: string, ms: number): string {
  if (Number.isSafeInteger(ms) && ms > 0) return String(ms);
  throw new InterlockError("invalid_request", `${what} must be a whole number of milliseconds above 0`);
}

export const grantMemory = String(grantMemoryMs);

export function guardArgs({ token, fence, policy, ttlMs }: Guard): string[] {
  return [opaqueWord("token", token), String(fence), policy, duration("ttlMs", ttlMs), grantMemory];
}
