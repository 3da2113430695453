// Cuts a text into literal parts and `${...}` templates; `$${` stands for a literal `${`.

export type TextPart =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "template"; readonly source: string };

export type TextReading =
  | { readonly kind: "parts"; readonly parts: readonly TextPart[] }
  | { readonly kind: "invalid"; readonly message: string };

export function splitTemplates(text: string): TextReading {
  const parts: TextPart[] = [];
  let literal = "";
  let at = 0;
  while (at < text.length) {
    const next = text.indexOf("${", at);
    if (next === -1) break;
    if (next > at && text[next - 1] === "$") {
      literal += `${text.slice(at, next - 1)}\${`;
      at = next + 2;
      continue;
    }
    const end = templateEnd(text, next + 2);
    if (end === undefined) {
      return {
        kind: "invalid",
        message: `the template that starts at character ${next + 1} has no closing brace`,
      };
    }
    literal += text.slice(at, next);
    if (literal !== "") parts.push({ kind: "text", text: literal });
    literal = "";
    parts.push({ kind: "template", source: text.slice(next + 2, end) });
    at = end + 1;
  }
  literal += text.slice(at);
  if (literal !== "" || parts.length === 0) parts.push({ kind: "text", text: literal });
  return { kind: "parts", parts };
}

/** Where the brace stands that closes a template: braces inside quotes, comments and object literals do not count. */
function templateEnd(text: string, start: number): number | undefined {
  let open = 1;
  let at = start;
  while (at < text.length) {
    const character = text[at];
    if (character === '"' || character === "'") {
      at = quoteEnd(text, at);
      continue;
    }
    if (character === "/" && text[at + 1] === "/") {
      const lineEnd = text.indexOf("\n", at);
      if (lineEnd === -1) return undefined;
      at = lineEnd;
    } else if (character === "{") {
      open += 1;
    } else if (character === "}") {
      open -= 1;
      if (open === 0) return at;
    }
    at += 1;
  }
  return undefined;
}

/** The place after a quoted text, which may be in triple quotes; a backslash always covers the next character. */
function quoteEnd(text: string, start: number): number {
  const quote = text.slice(start, start + 1);
  const closing = text.startsWith(quote.repeat(3), start) ? quote.repeat(3) : quote;
  let at = start + closing.length;
  while (at < text.length) {
    if (text.startsWith(closing, at)) return at + closing.length;
    at += text[at] === "\\" ? 2 : 1;
  }
  return text.length;
}
