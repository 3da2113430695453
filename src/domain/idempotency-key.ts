// Reads the idempotency key of a request: one value of 1-255 visible ASCII characters, quoted or bare.
export type KeyReading =
  | { readonly kind: "none" }
  | { readonly kind: "key"; readonly text: string }
  | { readonly kind: "invalid"; readonly why: string };

/**
 * `values` are all values of the accepted headers (`Idempotency-Key`, `X-Idempotency-Key`). The quoted form is a structured-field
 * string: `"a\"b"` is the key `a"b`, and the same key as the bare `a"b`.
 */
export function readIdempotencyKey(values: readonly string[]): KeyReading {
  const keys = new Set<string>();
  for (const value of values) {
    const key = unquote(value.trim());
    if (key === undefined) return { kind: "invalid", why: "a quoted key must end with a quote" };
    if (key.length === 0) return { kind: "invalid", why: "the key is empty" };
    if (key.length > 255)
      return { kind: "invalid", why: `the key has ${key.length} characters, 255 are allowed` };
    if (!/^[\x21-\x7e]+$/.test(key)) {
      return { kind: "invalid", why: "the key may hold visible ASCII characters only" };
    }
    keys.add(key);
  }
  if (keys.size > 1) return { kind: "invalid", why: "two different keys were sent" };
  const [text] = keys;
  return text === undefined ? { kind: "none" } : { kind: "key", text };
}

function unquote(value: string): string | undefined {
  if (!value.startsWith('"')) return value;
  if (!/^"(?:[^"\\]|\\["\\])*"$/.test(value)) return undefined;
  return value.slice(1, -1).replaceAll(/\\(["\\])/g, "$1");
}
