// What an operation needs to become a script call and back: keys, arguments, and how to read the reply.
import { type Guard, grantMemoryMs } from "../../domain/lock.ts";
import { type ErrorCode, errors, InterlockError } from "../../errors.ts";
import type { OperationName, OutcomeOf, RequestOf, StoreSettings } from "../../ports/store.ts";
import type { PartitionKeys, TenantKeys } from "./keys.ts";

/** What scripts answer: the kind of the outcome, the store's time, then the outcome's fields. */
export type Reply = readonly [kind: string, storeTimeMs: string, ...fields: unknown[]];

/** The sweep works on a partition, everything else on a tenant. */
type OwnerKeys<Name extends OperationName> = Name extends "sweep" ? PartitionKeys : TenantKeys;

export type ScriptCall<Name extends OperationName, Owner = OwnerKeys<Name>> = {
  /** In the order of the script's header. */
  keys(keys: Owner, request: RequestOf<Name>): string[];
  /** In the order of the script's header, after `notAfterMs`. */
  args(request: RequestOf<Name>, settings: StoreSettings): string[];
  parse(reply: Reply, request: RequestOf<Name>): OutcomeOf<Name>;
};

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

/** A failure is named by its error code, followed by its fields: name, value, name, value. */
export function parseFailure<Name extends OperationName>(
  operation: Name,
  [kind, storeTimeMs, ...fields]: Reply,
): Extract<OutcomeOf<Name>, { readonly kind: ErrorCode }> {
  if (!Object.hasOwn(errors, kind)) return unexpected(operation, [kind, storeTimeMs]);
  const failure: Record<string, unknown> = { kind };
  for (let at = 0; at < fields.length; at += 2) failure[String(fields[at])] = fields[at + 1];
  return failure as Extract<OutcomeOf<Name>, { readonly kind: ErrorCode }>;
}

/** A script answered something that its parser does not know: the two are not of the same version. */
export function unexpected(operation: OperationName, reply: Reply): never {
  throw new InterlockError("internal", `the script of ${operation} answered ${reply[0]}`);
}
