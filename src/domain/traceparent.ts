// The W3C trace context that a request brings and its work carries on: which trace it belongs to, and the span that caused it.

type TraceParts = {
  readonly traceId: string;
  readonly spanId: string;
  /** Two hexadecimal digits; the lowest bit says that the trace is recorded. */
  readonly flags: string;
};

const traceparentPattern = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

/** Version 00; anything else is dropped, as the recommendation asks: also ids of nothing but zeros. */
export function parseTraceparent(text: string): TraceParts | undefined {
  const [, traceId = "", spanId = "", flags = ""] = traceparentPattern.exec(text) ?? [];
  return isZero(traceId) || isZero(spanId) ? undefined : { traceId, spanId, flags };
}

/** The text if it is one, whatever was sent. */
export function readTraceparent(value: unknown): string | undefined {
  return typeof value === "string" && parseTraceparent(value) !== undefined ? value : undefined;
}

export function makeTraceparent({ traceId, spanId, flags }: TraceParts): string {
  return `00-${traceId}-${spanId}-${flags}`;
}

/** True for no id at all, too. */
const isZero = (id: string): boolean => /^0*$/.test(id);
