// What a call is answered when the store itself gave no outcome.
import { InterlockError } from "../../errors.ts";
import type { OperationName, Unavailable, Unknown } from "../../ports/store.ts";
import type { Delivery } from "./connection.ts";
import { refusalWhileMoving, refusalWithoutEffect } from "./scripts.ts";

export const tooLate: Unavailable = { kind: "unavailable", cause: "too_late" };

export function trouble(
  name: OperationName,
  delivery: Exclude<Delivery, { kind: "reply" }>,
  notAfterMs: number,
): Unavailable | Unknown {
  switch (delivery.kind) {
    case "not_sent":
      return { kind: "unavailable", cause: delivery.cause };
    case "lost":
      return { kind: "unknown", cause: delivery.cause, notAfterMs };
    case "error": {
      const cause = refusalWithoutEffect(delivery.message);
      if (cause === undefined) throw new InterlockError("internal", `${name}: ${delivery.message}`);
      return { kind: "unavailable", cause };
    }
  }
}

/** One item of a script call failed: it has written nothing, and the rest of the call went its way. */
export function troubleOfItem(name: OperationName, message: string): Unavailable {
  const cause = refusalWhileMoving(message);
  if (cause === undefined) throw new InterlockError("internal", `${name}: ${message}`);
  return { kind: "unavailable", cause };
}
