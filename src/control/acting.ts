// Who changes something, and for which key: what a write puts into its row and what the store compares.
import type { TenantId } from "../domain/tenant.ts";
import type { Caller, Trouble, WriteTrouble } from "./control-api.ts";

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

/** An answer without the effect asked for. Refusals that a flow cannot get are told as their own cause. */
export function troubleOf(answer: { readonly kind: string; readonly cause?: string }): Trouble {
  const { kind, cause = kind } = answer;
  return { kind: kind === "unknown" ? "unknown" : "unavailable", cause };
}

export function writeTroubleOf(answer: { readonly kind: string; readonly cause?: string }): WriteTrouble {
  return answer.kind === "unauthenticated" ? { kind: "unauthenticated" } : troubleOf(answer);
}
