// Who asks, and for which key; and what is answered when the store did not answer.
import type { Person } from "../domain/api-key.ts";
import type { Decider } from "../domain/approval.ts";
import type { TenantId } from "../domain/tenant.ts";

/** Who asks: `credential` is the id of the key, `actor` what stands in records and rows. */
export type Caller = {
  readonly tenant: TenantId;
  readonly actor: string;
  readonly credential?: string;
  /** Who is behind the key; without one only actors are compared. */
  readonly person?: Person;
  /** The highest priority that its key gives to a run; absent means any. */
  readonly priorityMax?: number;
  /** What an approval keeps of the person who decides it. */
  readonly decider?: Decider;
};

/** A caller, or only a name: that acts for no key. */
export type Acting = Caller | string;

export function actorOf(by: Acting): string {
  return typeof by === "string" ? by : by.actor;
}

/**
 * The key that a change in this tenant acts for. A tenant's record lists the revoked keys of that tenant alone: what a platform
 * key does elsewhere is checked by the gateway, which asks the store for the key again.
 */
export function credentialIn(tenant: TenantId, by: Acting): { readonly credential?: string } {
  if (typeof by === "string" || by.tenant !== tenant || by.credential === undefined) return {};
  return { credential: by.credential };
}

/** The store could not answer: `unknown` may have had its effect, `unavailable` had none. */
export type Trouble =
  | { readonly kind: "unavailable"; readonly cause: string }
  | { readonly kind: "unknown"; readonly cause: string };

/** A write that acts for a key finds at the store that the key was revoked: it had no effect. */
export type WriteTrouble = Trouble | { readonly kind: "unauthenticated" };

/** An answer without the effect asked for. Refusals that a flow cannot get are told as their own cause. */
export function troubleOf(answer: { readonly kind: string; readonly cause?: string }): Trouble {
  const { kind, cause = kind } = answer;
  return { kind: kind === "unknown" ? "unknown" : "unavailable", cause };
}

export function writeTroubleOf(answer: { readonly kind: string; readonly cause?: string }): WriteTrouble {
  return answer.kind === "unauthenticated" ? { kind: "unauthenticated" } : troubleOf(answer);
}
