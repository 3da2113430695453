// Names a place in a definition as people write it: `steps.review.depends_on[0]`, `steps["a.b"].topic`.
import { excerptOf } from "../excerpt.ts";

/** Longer than any name that is allowed: two hundred problems of one step must not repeat a name of 256 KiB each. */
const nameCharactersMax = 128;

export function placeIn(path: string, name: string): string {
  const shown = excerptOf(name, nameCharactersMax);
  if (!/^[A-Za-z0-9_-]+$/.test(shown)) return `${path}[${JSON.stringify(shown)}]`;
  return path === "" ? shown : `${path}.${shown}`;
}
