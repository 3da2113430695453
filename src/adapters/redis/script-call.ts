// What an operation needs to become a script call and back: keys, arguments, and how to read the reply.
import type { Guard } from "../../domain/lock.ts";
import { grantMemoryMs } from "../../domain/lock.ts";
import { InterlockError } from "../../errors.ts";
import type { OperationName, OutcomeOf, RequestOf, StoreSettings } from "../../ports/store.ts";
import type { TenantKeys } from "./keys.ts";

/** What scripts answer: the kind of the outcome, the store's time, then the outcome's fields. */
export type Reply = readonly [kind: string, storeTimeMs: string, ...fields: unknown[]];

export type ScriptCall<Name extends OperationName> = {
  /** In the order of the script's header. */
  keys(keys: TenantKeys, request: RequestOf<Name>): string[];
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

/** Redis refuses to expire a key after a broken number of milliseconds, or at once. */
export function duration(what: string, ms: number): string {
  if (Number.isSafeInteger(ms) && ms > 0) return String(ms);
  throw new InterlockError("invalid_request", `${what} must be a whole number of milliseconds above 0`);
}

export const grantMemory = String(grantMemoryMs);

export function guardArgs({ token, fence, policy, ttlMs }: Guard): string[] {
  return [opaqueWord("token", token), String(fence), policy, duration("ttlMs", ttlMs), grantMemory];
}

/** A script answered something that its parser does not know: the two are not of the same version. */
export function unexpected(operation: OperationName, reply: Reply): never {
  throw new InterlockError("internal", `the script of ${operation} answered ${reply[0]}`);
}
