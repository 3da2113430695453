// The version of this package, from its own file.
import { readFileSync } from "node:fs";

/** The file lies two folders up from here, in the source as in what is compiled. */
export function productVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}
