// The folder in which the user typed the command: npm runs a script in the package's folder and says where the user is.
import { dirname, relative, resolve } from "node:path";
import { processEnvironment } from "../load-config.ts";

export function typedFolder(): string {
  const { INIT_CWD: typed, npm_package_json: manifest } = processEnvironment();
  // Set by an npm further out, these belong to another command than this one.
  const isOurs = manifest !== undefined && dirname(manifest) === process.cwd();
  return isOurs && typed !== undefined ? typed : process.cwd();
}

/** A path as the user may type it, in the shorter of its two forms. */
export function asTyped(path: string): string {
  const whole = resolve(path);
  const fromHere = relative(typedFolder(), whole) || ".";
  return fromHere.length <= whole.length ? fromHere : whole;
}

/** A path that the user has typed. */
export function fromTyped(path: string): string {
  return resolve(typedFolder(), path);
}

/** As one word of a shell's command line. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
