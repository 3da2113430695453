// The small schemas that requests and replies share: ids, times, free text, pages.
import * as z from "zod";
import type { JsonValue } from "../domain/fingerprint.ts";

/** JSON that is passed on as it is: the strict reader has already bounded it. */
export const anyJson = z.custom<JsonValue>((value) => value !== undefined).meta({ description: "Any JSON." });

export const time = z.string().meta({ description: "RFC 3339, in UTC.", format: "date-time" });

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._:@/-]*$/;

/** What workers and polls call themselves. */
export const callerName = z
  .string()
  .min(1)
  .max(128)
  .regex(namePattern, "may hold letters, digits and . _ : @ / -");

export const topic = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, "may hold letters, digits and . _ -");

export const tenantName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "must be 1 to 64 letters, digits and . _ -");

/** Shown to people, so it may be in any language; control characters have no place in it. */
export const freeText = (charactersMax: number) =>
  z
    .string()
    .max(charactersMax)
    .regex(/^\P{Cc}*$/u, "must not hold control characters");

/** Numbers in a query are text; the document shows them as what they mean. */
export const wholeNumberText = ({ min, max }: { readonly min: number; readonly max: number }) =>
  z
    .custom<string>(
      (value) => typeof value === "string" && /^\d{1,9}$/.test(value) && +value >= min && +value <= max,
      `must be a whole number from ${min} to ${max}`,
    )
    .meta({ type: "integer", minimum: min, maximum: max })
    .transform(Number);

export const pageLimitDefault = 50;
const pageLimitMax = 500;

export const pageQuery = {
  limit: wholeNumberText({ min: 1, max: pageLimitMax })
    .exactOptional()
    .meta({ description: `Items per page: 1 to ${pageLimitMax}, ${pageLimitDefault} by default.` }),
  cursor: z.string().max(1_024).exactOptional().meta({ description: "next_cursor of the page before." }),
};

/** A page of a list; `next_cursor` is null on the last one. */
export const pageOf = <Item extends z.ZodType>(item: Item) =>
  z.object({ items: z.array(item), next_cursor: z.string().nullable() });

/** The reply without a body. */
export const nothing = z.undefined();
