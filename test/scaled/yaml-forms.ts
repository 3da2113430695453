// YAML in forms that have been slow to read, each by its size in bytes.
import type { Form } from "./raw-json.ts";

const start = "id: scaled\nsteps:\n  one: {}\n";
const lines = (bytes: number, line: (index: number) => string): string =>
  Array.from({ length: Math.max(1, Math.floor(bytes / (line(100_000).length + 1))) }, (_, index) =>
    line(index),
  ).join("\n");
const filled = (part: string, bytes: number): string =>
  part.repeat(Math.max(1, Math.floor(bytes / part.length)));

export const yamlForms: readonly Form[] = [
  { name: "YAML, list of numbers", text: (bytes) => `${start}x:\n${lines(bytes, () => "- 7")}` },
  { name: "YAML, flow list", text: (bytes) => `${start}x: [${filled("7, ", bytes)}7]` },
  { name: "YAML, flow maps", text: (bytes) => `${start}x: [${filled("{a: 1}, ", bytes)}1]` },
  {
    name: "YAML, nested flow",
    text: (bytes) => `${start}x: ${"[".repeat(bytes / 2)}${"]".repeat(bytes / 2)}`,
  },
  { name: "YAML, flow that never closes", text: (bytes) => `${start}x: ${"[".repeat(bytes)}` },
  { name: "YAML, many names", text: (bytes) => `${start}x:\n${lines(bytes, (index) => `  n${index}: 1`)}` },
  { name: "YAML, one name again and again", text: (bytes) => `${start}x:\n${lines(bytes, () => "  a: 1")}` },
  {
    name: "YAML, nested maps",
    text: (bytes) => {
      const depth = Math.floor(Math.sqrt(bytes * 2));
      return `${start}x:\n${Array.from({ length: depth }, (_, index) => `${" ".repeat(index + 1)}a:`).join("\n")}`;
    },
  },
  { name: "YAML, anchors", text: (bytes) => `${start}x:\n${lines(bytes, (index) => `- &a${index} 1`)}` },
  { name: "YAML, aliases", text: (bytes) => `${start}y: &a [1, 2]\nx:\n${lines(bytes, () => "- *a")}` },
  {
    name: "YAML, anchors and their aliases",
    text: (bytes) => `${start}x:\n${lines(bytes, (index) => `- &a${index} 1\n- *a${index}`)}`,
  },
  {
    name: "YAML, aliases of aliases",
    text: (bytes) =>
      `${start}x0: &x0 [1]\n${lines(bytes, (index) => `x${index + 1}: &x${index + 1} [*x${index}, *x${index}]`)}`,
  },
  { name: "YAML, merges", text: (bytes) => `${start}y: &a {b: 1}\nx:\n${lines(bytes, () => "- <<: *a")}` },
  { name: "YAML, comments", text: (bytes) => `${start}${lines(bytes, () => "# nothing")}` },
  { name: "YAML, one long comment", text: (bytes) => `${start}# ${"x".repeat(bytes)}` },
  { name: "YAML, block text", text: (bytes) => `${start}x: |\n${lines(bytes, () => "  text of a line")}` },
  { name: "YAML, folded text", text: (bytes) => `${start}x: >\n${lines(bytes, () => "  text of a line")}` },
  {
    name: "YAML, plain text over lines",
    text: (bytes) => `${start}x:\n${lines(bytes, () => "  text of a line")}`,
  },
  { name: "YAML, quoted text", text: (bytes) => `${start}x: "${filled("\\u0041", bytes)}"` },
  { name: "YAML, single quotes", text: (bytes) => `${start}x: '${filled("''", bytes)}'` },
  { name: "YAML, quotes that never close", text: (bytes) => `${start}x: "${"a".repeat(bytes)}` },
  { name: "YAML, quoted text over lines", text: (bytes) => `${start}x: "${lines(bytes, () => "a\n")}"` },
  { name: "YAML, long number", text: (bytes) => `${start}x: 1.${"0".repeat(bytes)}1` },
  { name: "YAML, long whole number", text: (bytes) => `${start}x: ${"9".repeat(bytes)}` },
  { name: "YAML, tags", text: (bytes) => `${start}x:\n${lines(bytes, () => "- !t 1")}` },
  { name: "YAML, documents", text: (bytes) => `${start}${lines(bytes, () => "---\na: 1")}` },
  {
    name: "YAML, directives",
    text: (bytes) => `${lines(bytes, (index) => `%TAG !a${index}! tag:x`)}\n---\n${start}`,
  },
  { name: "YAML, indentation", text: (bytes) => `${start}x:\n${" ".repeat(bytes)}a: 1` },
  { name: "YAML, blank lines", text: (bytes) => `${start}x:${"\n".repeat(bytes)} 1` },
  { name: "YAML, tabs", text: (bytes) => `${start}x:${"\t".repeat(bytes)}1` },
  { name: "YAML, question marks", text: (bytes) => `${start}${lines(bytes, () => "? a")}` },
  { name: "YAML, dashes", text: (bytes) => `${start}x:\n${filled("- ", Math.min(bytes, 60_000))}1` },
  { name: "YAML, colons", text: (bytes) => `${start}x: ${"a:".repeat(bytes / 2)}` },
  { name: "YAML, carriage returns", text: (bytes) => `${start}x:${"\r".repeat(bytes)} 1` },
];
