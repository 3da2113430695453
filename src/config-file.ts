// Reads a configuration file: YAML or JSON, settings by name, flat (`gateway.port: 7400`) or as a tree (`gateway: { port: 7400 }`).
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { InterlockError } from "./errors.ts";

type ConfigFile = Readonly<Record<string, unknown>>;

/** Throws `config_invalid` with the line and column of whatever is not YAML; which names and values are good, `loadConfig` says. */
export function readConfigFile(path: string): ConfigFile {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    throw new InterlockError("config_invalid", `the configuration file cannot be read: ${cause}`, {
      cause: error,
    });
  }
  return parseConfigFile(text, path);
}

export function parseConfigFile(text: string, path: string): ConfigFile {
  // Loaded when a file is named: the package takes 30 ms, and most programs have no file.
  const { parseDocument } = createRequire(import.meta.url)("yaml") as typeof import("yaml");
  const document = parseDocument(text, { prettyErrors: true });
  const problems = document.errors.map(({ message, linePos }) => {
    const [first = ""] = message.split("\n");
    const place = linePos === undefined ? "" : `:${linePos[0].line}:${linePos[0].col}`;
    return `${path}${place}: ${first.replace(/ at line .*$/, "")}`;
  });
  if (problems.length > 0) throw new InterlockError("config_invalid", problems.join("; "));
  const value: unknown = document.toJS();
  if (value === null || value === undefined) return {};
  if (!isTree(value))
    throw new InterlockError("config_invalid", `${path} must hold settings by name, such as gateway.port`);
  return flattened(value);
}

/** Every setting is a text or a number, so that a tree means the names of its branches with dots between them. */
function flattened(tree: Readonly<Record<string, unknown>>, prefix = ""): ConfigFile {
  return Object.fromEntries(
    Object.entries(tree).flatMap(([name, value]) =>
      isTree(value)
        ? Object.entries(flattened(value, `${prefix}${name}.`))
        : [[prefix + name, value] as const],
    ),
  );
}

function isTree(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
