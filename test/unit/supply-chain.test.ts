// What the product is built from: exact versions, known hashes and licences, no scripts at installation, and few direct packages.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { hashOf, type Lockfile, softwareBill } from "../../scripts/software-bill.ts";

const root = dirname(dirname(import.meta.dirname));
const read = (path: string) => readFileSync(join(root, path), "utf8");

type Manifest = {
  readonly name: string;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly overrides?: Readonly<Record<string, string>>;
  readonly allowScripts?: Readonly<Record<string, boolean>>;
  readonly scripts: Readonly<Record<string, string>>;
};

const manifest = JSON.parse(read("package.json")) as Manifest;
const lock = JSON.parse(read("npm-shrinkwrap.json")) as Lockfile;

/** Every package that users get because they install this one, and why it is worth its risk. A new one needs a line here. */
const runtimePackages: Readonly<Record<string, string>> = {
  "@marcbachmann/cel-js": "the bounded expression language of workflows, without eval",
  "@nats-io/jetstream": "the bus between processes",
  "@nats-io/transport-node": "its connection",
  "@opentelemetry/api": "spans for programs that run a tracing SDK beside it; nothing happens without one",
  "@redis/client": "the Redis protocol and its connections",
  canonicalize: "one spelling of a JSON value (RFC 8785), for fingerprints and approvals",
  commander: "the words of the command line",
  "eventsource-parser": "event streams in the SDK",
  pino: "log lines as JSON, written without waiting",
  yaml: "workflows in YAML, with the places of mistakes",
  zod: "the HTTP contract and its types",
  "@photostructure/sqlite": "the embedded store; absent where only Redis is used",
};

/** What others may be told to do with a copy of this product. Of what is only used to build and test it, one more. */
const licences = [
  "MIT",
  "ISC",
  "0BSD",
  "Apache-2.0",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "Unlicense",
  "MIT OR Apache-2.0",
];
const licencesOfTools = [...licences, "MPL-2.0"];

/** Restate's server may be run by anyone but not offered as a service: it is measured, and no part of the product. */
const licencesOfEngines = ["BSL", "(MIT OR CC0-1.0)"];

/** Packages that would like to run a script when they are installed; none of them may, and all work without. */
const scripted = ["@photostructure/sqlite", "esbuild", "fsevents"];

const registry = "https://registry.npmjs.org/";

function locked(file: Lockfile) {
  return Object.entries(file.packages)
    .filter(([path]) => path !== "")
    .map(([path, entry]) => ({ path, ...entry }));
}

describe("package.json", () => {
  test("names exact versions only", () => {
    const { dependencies, optionalDependencies, devDependencies, overrides } = manifest;
    const all = Object.entries({
      ...dependencies,
      ...optionalDependencies,
      ...devDependencies,
      ...overrides,
    });
    expect(all.filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
  });

  test("names no package for running that is not in the list above, with its reason", () => {
    const named = Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies });
    expect(named.sort()).toEqual(Object.keys(runtimePackages).sort());
    expect(named.length).toBeLessThanOrEqual(15);
  });

  test("lets no package run a script at its installation, nor runs one of its own", () => {
    expect(Object.values(manifest.allowScripts ?? {}).filter((allowed) => allowed)).toEqual([]);
    const atInstallation = ["preinstall", "install", "postinstall", "prepare"];
    expect(atInstallation.filter((name) => Object.hasOwn(manifest.scripts, name))).toEqual([]);
    expect(read("scripts/setup/packages.mjs")).toContain('"--ignore-scripts"');
  });
});

type Known = { readonly mayHaveScripts: readonly string[]; readonly alsoLicensed: readonly string[] };

describe.each<[string, Known]>([
  ["npm-shrinkwrap.json", { mayHaveScripts: scripted, alsoLicensed: [] }],
  ["bench/peers/npm-shrinkwrap.json", { mayHaveScripts: ["msgpackr-extract"], alsoLicensed: [] }],
  [
    "bench/peers/engines/npm-shrinkwrap.json",
    { mayHaveScripts: ["@scarf/scarf"], alsoLicensed: licencesOfEngines },
  ],
])("%s", (name, { mayHaveScripts, alsoLicensed }: Known) => {
  const file = JSON.parse(read(name)) as Lockfile;
  const packages = locked(file);

  test("says of every package what its bytes must be", () => {
    const loose = packages.filter(({ integrity }) => !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? ""));
    expect(loose.map(({ path }) => path)).toEqual([]);
    expect([file.lockfileVersion, packages.length > 10]).toEqual([3, true]);
  });

  test("takes packages from the registry alone", () => {
    const elsewhere = packages.filter(
      ({ resolved, link, version }) =>
        link === true || (resolved ?? registry).startsWith(registry) === false || !/^\d/.test(version),
    );
    expect(elsewhere.map(({ path }) => path)).toEqual([]);
  });

  test("has no package with an installation script but those that are known", () => {
    const names = packages
      .filter(({ hasInstallScript }) => hasInstallScript === true)
      .map(({ path }) => path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length));
    expect(names.filter((name) => !mayHaveScripts.includes(name))).toEqual([]);
  });

  test("has licences that are known", () => {
    const strange = packages.filter(({ license = "none", dev = false }) =>
      dev ? !licencesOfTools.includes(license) : ![...licences, ...alsoLicensed].includes(license),
    );
    expect(strange.map(({ path, license }) => `${path}: ${license}`)).toEqual([]);
  });
});

describe("the software bill", () => {
  const bill = softwareBill(lock);
  const refs = bill.components.map((component) => component["bom-ref"]);

  test("has every package of the lockfile once, with its hash and its licence", () => {
    const wanted = new Set(
      locked(lock).map(({ path, version }) => {
        const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
        return `pkg:npm/${name.replace("@", "%40")}@${version}`;
      }),
    );
    expect([...refs].sort()).toEqual([...wanted].sort());
    for (const { hashes, licenses, name } of bill.components) {
      expect(hashes?.[0]?.content, name).toMatch(/^[0-9a-f]{128}$/);
      expect(licenses, name).toHaveLength(1);
    }
  });

  test("says what needs what, with no end loose", () => {
    const known = new Set([...refs, bill.metadata.component["bom-ref"]]);
    const loose = bill.dependencies
      .flatMap(({ ref, dependsOn }) => [ref, ...dependsOn])
      .filter((ref) => !known.has(ref));
    expect(loose).toEqual([]);
    const own = bill.dependencies.find(({ ref }) => ref === bill.metadata.component["bom-ref"]);
    const direct = Object.keys({
      ...manifest.dependencies,
      ...manifest.optionalDependencies,
      ...manifest.devDependencies,
    });
    expect(own?.dependsOn).toHaveLength(direct.length);
  });

  test("tells what users get from what only tests need: the first needs nothing of the second", () => {
    const scopeOf = new Map(bill.components.map((component) => [component["bom-ref"], component.scope]));
    const needed = bill.dependencies
      .filter(({ ref }) => scopeOf.get(ref) === "required")
      .flatMap(({ ref, dependsOn }) =>
        dependsOn.map((target) => `${ref} needs ${target}, ${scopeOf.get(target)}`),
      );
    expect(needed.filter((line) => line.endsWith("excluded"))).toEqual([]);
    expect(scopeOf.get(`pkg:npm/zod@${manifest.dependencies.zod}`)).toBe("required");
    expect(scopeOf.get(`pkg:npm/vitest@${manifest.devDependencies?.vitest}`)).toBe("excluded");
  });

  test("is the same for the same lockfile, and another for another", () => {
    expect(softwareBill(lock)).toEqual(bill);
    expect(bill.serialNumber).toMatch(
      /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/,
    );
    expect(softwareBill({ ...lock, version: "9.9.9" }).serialNumber).not.toBe(bill.serialNumber);
    expect(() => hashOf("sha1-abc")).toThrow("sha1");
  });

  test("is what the command prints", () => {
    const command = ["--import", "tsx", "scripts/write-software-bill.ts"];
    const printed = execFileSync(process.execPath, command, {
      cwd: root,
      encoding: "utf8",
      maxBuffer: 16_777_216,
    });
    expect(JSON.parse(printed)).toEqual(JSON.parse(JSON.stringify(bill)));
  });
});

describe("the package", () => {
  test("holds nothing that is there to prove or measure the product", () => {
    const printed = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
      cwd: root,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    const [{ files }] = JSON.parse(printed) as [{ readonly files: ReadonlyArray<{ readonly path: string }> }];
    const beside = /^(proof|chaos|bench|test|scripts|src)\//;
    expect(files.some(({ path }) => path === "package.json")).toBe(true);
    expect(files.filter(({ path }) => beside.test(path))).toEqual([]);
  });
});
