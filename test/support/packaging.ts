// Reads what is deployed: the Dockerfile's instructions, the compose file's services, the units' settings.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parse } from "yaml";

export const root = dirname(dirname(import.meta.dirname));
export const textOf = (path: string): string => readFileSync(join(root, path), "utf8");

export type Instruction = { readonly name: string; readonly rest: string };

/** Lines that end in a backslash go on; comments and empty lines say nothing. */
export function dockerfileInstructions(text: string): Instruction[] {
  const lines = text
    .split("\n")
    .filter((line) => !/^\s*(#|$)/.test(line))
    .join("\n")
    .replaceAll(/\s*\\\n\s*/g, " ");
  return lines.split("\n").map((line) => {
    const [, name = "", rest = ""] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? [];
    return { name, rest };
  });
}

/** The instructions of each stage, by its name; the last one has none and is called `image`. */
export function dockerfileStages(text: string): ReadonlyMap<string, readonly Instruction[]> {
  const stages = new Map<string, Instruction[]>();
  let current: Instruction[] = [];
  for (const instruction of dockerfileInstructions(text)) {
    if (instruction.name === "FROM") {
      current = [];
      stages.set(/ AS (\S+)$/.exec(instruction.rest)?.[1] ?? "image", current);
    }
    current.push(instruction);
  }
  return stages;
}

export type Copy = { readonly from?: string; readonly sources: readonly string[]; readonly target: string };

export function copiesOf(stage: readonly Instruction[]): Copy[] {
  return stage
    .filter(({ name }) => name === "COPY")
    .map(({ rest }) => {
      const words = rest.split(/\s+/);
      const from = words[0]?.startsWith("--from=") ? words.shift()?.slice("--from=".length) : undefined;
      const target = words.pop() ?? "";
      return { ...(from === undefined ? {} : { from }), sources: words, target };
    });
}

/** The variables that an ENV instruction sets. */
export function environmentOf(stage: readonly Instruction[]): Record<string, string> {
  const pairs = stage.filter(({ name }) => name === "ENV").flatMap(({ rest }) => rest.split(/\s+/));
  return Object.fromEntries(pairs.map((pair) => pair.split("=") as [string, string]));
}

export type Service = {
  readonly image?: string;
  readonly user?: string;
  readonly command?: readonly string[];
  readonly entrypoint?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly read_only?: boolean;
  readonly restart?: string;
  readonly cap_drop?: readonly string[];
  readonly cap_add?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly pids_limit?: number;
  readonly stop_grace_period?: string;
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly deploy?: {
    readonly resources: { readonly limits: { readonly memory: string; readonly cpus: string } };
  };
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly configs?: readonly { readonly source: string; readonly target: string }[];
  readonly secrets?: readonly string[];
  readonly networks?: readonly string[] | Readonly<Record<string, { readonly ipv4_address: string }>>;
  readonly profiles?: readonly string[];
};

export type Compose = {
  readonly services: Readonly<Record<string, Service>>;
  readonly networks: Readonly<Record<string, unknown>>;
  readonly volumes: Readonly<Record<string, unknown>>;
  readonly configs: Readonly<Record<string, { readonly file: string }>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
};

/** With the default of every `${NAME:-default}`, as somebody meets it who sets nothing; `$$` is a dollar. */
export function readCompose(): Compose {
  const text = textOf("deploy/compose/compose.yaml").replaceAll(/\$\{[A-Z_]+:-([^}]*)\}/g, "$1");
  return parse(text.replaceAll("$$", "$"), { merge: true }) as Compose;
}

/** `NAME=value` by line, as systemd and shells read it. */
export function environmentFile(text: string): Record<string, string> {
  const lines = text.split("\n").filter((line) => /^[A-Z]/.test(line));
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
  );
}

/** The settings of a unit: section and name to its values, in their order. */
export function unitSettings(text: string): ReadonlyMap<string, readonly string[]> {
  const settings = new Map<string, string[]>();
  let section = "";
  for (const line of text.split("\n")) {
    const header = /^\[(\w+)\]$/.exec(line)?.[1];
    const [, name, value = ""] = /^(\w+)=(.*)$/.exec(line) ?? [];
    if (header !== undefined) section = header;
    else if (name !== undefined) {
      const key = `${section}.${name}`;
      settings.set(key, [...(settings.get(key) ?? []), value]);
    }
  }
  return settings;
}

/** A tag that cannot mean something else tomorrow, or at least names a patch. */
export const exactImage = /^[a-z0-9./-]+:v?\d+\.\d+\.\d+(-[a-z0-9.-]+)?(@sha256:[0-9a-f]{64})?$/;
