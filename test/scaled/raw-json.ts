// JSON as text in forms that have been slow to read, each by its size in bytes.
export type Form = {
  readonly name: string;
  /** As it is sent. */
  text(bytes: number): string;
};

const filled = (part: string, bytes: number): string =>
  part.repeat(Math.max(1, Math.floor(bytes / part.length)));
const listOf = (part: string, bytes: number): string => `[${filled(`${part},`, bytes)}${part}]`;
const counted = (bytes: number, part: (index: number) => string): string =>
  Array.from({ length: Math.max(1, Math.floor(bytes / part(1_000_000).length)) }, (_, index) =>
    part(index),
  ).join(",");

/** Inside quotation marks. */
export const textForms: readonly Form[] = [
  { name: "text, plain", text: (bytes) => filled("a", bytes) },
  { name: "text, escapes", text: (bytes) => filled("\\u0041", bytes) },
  { name: "text, line ends", text: (bytes) => filled("\\n", bytes) },
  { name: "text, lone surrogates", text: (bytes) => filled("\\ud800", bytes) },
  { name: "text, surrogate pairs", text: (bytes) => filled("\\ud83e\\udd8a", bytes) },
  { name: "text, emoji", text: (bytes) => filled("🦊", bytes / 2) },
  { name: "text, blanks", text: (bytes) => filled(" ", bytes) },
];

export const numberForms: readonly Form[] = [
  { name: "number, zeros and a one behind the point", text: (bytes) => `1.${"0".repeat(bytes)}1` },
  { name: "number, digits", text: (bytes) => "9".repeat(bytes) },
  { name: "number, zeros at its end", text: (bytes) => `1${"0".repeat(bytes)}` },
  { name: "number, small", text: (bytes) => `0.${"0".repeat(bytes)}1e${bytes}` },
  { name: "number, digits in the exponent", text: (bytes) => `1e${"9".repeat(bytes)}` },
  { name: "number, zeros in the exponent", text: (bytes) => `1e-${"0".repeat(bytes)}5` },
];

/** Of any kind. */
export const valueForms: readonly Form[] = [
  ...numberForms,
  ...textForms.map(({ name, text }) => ({ name, text: (bytes: number) => `"${text(bytes)}"` })),
  { name: "list of whole numbers", text: (bytes) => listOf("7", bytes) },
  { name: "list of fractions", text: (bytes) => listOf("1.5", bytes) },
  { name: "list of precise numbers", text: (bytes) => listOf("0.12345678901234567", bytes) },
  { name: "list of exponents", text: (bytes) => listOf("1E+2", bytes) },
  { name: "list of texts", text: (bytes) => listOf('"a"', bytes) },
  { name: "list of words", text: (bytes) => listOf("null", bytes) },
  { name: "list of objects", text: (bytes) => listOf('{"a":1}', bytes) },
  { name: "list of empty lists", text: (bytes) => listOf("[]", bytes) },
  { name: "nested lists", text: (bytes) => `${"[".repeat(bytes / 2)}${"]".repeat(bytes / 2)}` },
  {
    name: "nested objects",
    text: (bytes) => `${'{"a":'.repeat(bytes / 6)}1${"}".repeat(bytes / 6)}`,
  },
  { name: "nested lists that never close", text: (bytes) => "[".repeat(bytes) },
  { name: "object of many names", text: (bytes) => `{${counted(bytes, (index) => `"n${index}":1`)}}` },
  {
    name: "object of numbers as names",
    text: (bytes) => `{${counted(bytes, (index) => `"${9_999_999 - index}":1`)}}`,
  },
  { name: "object of one name again and again", text: (bytes) => `{${filled('"a":1,', bytes)}"a":1}` },
  { name: "object of one long name", text: (bytes) => `{"${"a".repeat(bytes)}":1}` },
  { name: "object of a name in escapes", text: (bytes) => `{"${filled("\\u0041", bytes)}":1}` },
  {
    name: "objects of 1,000 names",
    text: (bytes) => {
      const object = `{${Array.from({ length: 1_000 }, (_, index) => `"n${index}":0`).join(",")}}`;
      return listOf(object, Math.max(1, bytes - object.length));
    },
  },
  { name: "blanks before the value", text: (bytes) => `${" \n".repeat(bytes / 2)}1` },
];
