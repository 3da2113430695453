// Tells whether two requests ask for the same thing: a hash of their canonical form (RFC 8785).
import { createHash } from "node:crypto";
import { canonicalPieces } from "./canonical-json.ts";
import type { Fingerprint } from "./reservation.ts";
import { atOnce, type Sliced } from "./slices.ts";

export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue };

export type FingerprintedRequest = {
  readonly method: string;
  /** With the concrete ids, so that one key on two workflows is two requests. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** As sent, before defaults are filled in. */
  readonly body: JsonValue;
};

/** Only these change what a start does; other parameters (and envelope ids added by proxies) must not break a retry. */
const listedParameters = ["dry_run", "team_id"];

/** The tag changes when the recipe does, so that old records never match by accident. */
const recipe = "v1";

export function fingerprintOf(request: FingerprintedRequest): Fingerprint {
  return atOnce(fingerprinting(request));
}

/** The same in slices, for bodies of megabytes. */
export function* fingerprinting(request: FingerprintedRequest): Sliced<Fingerprint> {
  const query = Object.fromEntries(
    listedParameters.flatMap((name) => {
      const value = request.query[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
  const hash = createHash("sha256");
  const pieces = canonicalPieces({
    method: request.method.toUpperCase(),
    path: request.path,
    query,
    body: withoutTenantAlias(request.body),
  });
  let written = 0;
  for (const piece of pieces) {
    if (written > 0) yield;
    hash.update(piece);
    written += piece.length;
  }
  return `${recipe}:${hash.digest("hex")}` as Fingerprint;
}

/** `org_id` repeats the credential's tenant, which is part of the key's scope already. */
function withoutTenantAlias(body: JsonValue): JsonValue {
  if (body === null || typeof body !== "object" || Array.isArray(body)) return body;
  const { org_id: _tenant, ...rest } = body as { readonly [name: string]: JsonValue };
  return rest;
}
