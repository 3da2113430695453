// What the product is made of, as a CycloneDX document: every package of the lockfile, its licence, its hash and what needs it.
import { createHash } from "node:crypto";

export type LockedPackage = {
  readonly version: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly link?: boolean;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly devOptional?: boolean;
  readonly hasInstallScript?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
};

export type Lockfile = {
  readonly name: string;
  readonly version: string;
  readonly lockfileVersion: number;
  readonly packages: Readonly<Record<string, LockedPackage>>;
};

export type Component = {
  readonly type: "library" | "application";
  readonly "bom-ref": string;
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly scope?: "required" | "optional" | "excluded";
  readonly licenses?: ReadonlyArray<{ readonly expression: string }>;
  readonly hashes?: ReadonlyArray<{ readonly alg: "SHA-512"; readonly content: string }>;
};

export type SoftwareBill = {
  readonly bomFormat: "CycloneDX";
  readonly specVersion: "1.6";
  readonly serialNumber: string;
  readonly version: 1;
  readonly metadata: { readonly component: Component };
  readonly components: readonly Component[];
  readonly dependencies: ReadonlyArray<{ readonly ref: string; readonly dependsOn: readonly string[] }>;
};

/** The same lockfile gives the same document, byte for byte: it holds no time, and its number is made from the content. */
export function softwareBill(lock: Lockfile): SoftwareBill {
  const placed = Object.entries(lock.packages);
  // A package may be installed at several places; it is one component.
  const byRef = new Map(placed.map(([path, locked]) => [refOf(lock, path), { path, locked }]));
  const root = refOf(lock, "");
  const dependencies = new Map<string, Set<string>>();
  for (const [path, locked] of placed) {
    const ref = refOf(lock, path);
    const needed = dependencies.get(ref) ?? new Set<string>();
    dependencies.set(ref, needed);
    for (const target of targetsOf(lock, path, locked)) needed.add(refOf(lock, target));
  }
  const components = [...byRef]
    .filter(([ref]) => ref !== root)
    .map(([ref, { path, locked }]) => componentOf(nameOf(lock, path), ref, locked))
    .sort((left, right) => compare(left["bom-ref"], right["bom-ref"]));
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: serialNumberOf(lock),
    version: 1,
    metadata: {
      component: { ...componentOf(lock.name, root, lock.packages[""] as LockedPackage), type: "application" },
    },
    components,
    dependencies: [...dependencies]
      .sort(([left], [right]) => compare(left, right))
      .map(([ref, needed]) => ({ ref, dependsOn: [...needed].sort(compare) })),
  };
}

function componentOf(name: string, ref: string, locked: LockedPackage): Component {
  const { version, license, integrity } = locked;
  return {
    type: "library",
    "bom-ref": ref,
    name,
    version,
    purl: ref,
    scope: scopeOf(locked),
    ...(license === undefined ? {} : { licenses: [{ expression: license }] }),
    ...(integrity === undefined ? {} : { hashes: [{ alg: "SHA-512", content: hashOf(integrity) }] }),
  };
}

function scopeOf({ dev, devOptional, optional }: LockedPackage): NonNullable<Component["scope"]> {
  if (dev === true || devOptional === true) return "excluded";
  return optional === true ? "optional" : "required";
}

/** `sha512-<base64>` as hexadecimal digits. */
export function hashOf(integrity: string): string {
  const [algorithm, text = ""] = integrity.split("-", 2);
  if (algorithm !== "sha512") throw new Error(`a hash by ${algorithm} is not taken`);
  return Buffer.from(text, "base64").toString("hex");
}

function nameOf(lock: Lockfile, path: string): string {
  return path === "" ? lock.name : path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
}

function refOf(lock: Lockfile, path: string): string {
  const name = nameOf(lock, path).replace("@", "%40");
  return `pkg:npm/${name}@${lock.packages[path]?.version}`;
}

/** Where each package that this one names is found, as Node looks for it: beside it first, then above. */
function targetsOf(lock: Lockfile, path: string, locked: LockedPackage): string[] {
  const { dependencies, optionalDependencies, peerDependencies, devDependencies } = locked;
  const names = Object.keys({
    ...dependencies,
    ...optionalDependencies,
    ...peerDependencies,
    ...(path === "" ? devDependencies : {}),
  });
  return names.flatMap((name) => {
    for (let folder = path; ; folder = parentOf(folder)) {
      const place = folder === "" ? `node_modules/${name}` : `${folder}/node_modules/${name}`;
      if (lock.packages[place] !== undefined) return [place];
      // Peers and optional ones may be missing.
      if (folder === "") return [];
    }
  });
}

function parentOf(path: string): string {
  const end = path.lastIndexOf("/node_modules/");
  return end === -1 ? "" : path.slice(0, end);
}

function serialNumberOf(lock: Lockfile): string {
  const hex = createHash("sha256").update(JSON.stringify(lock)).digest("hex");
  const parts = [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`];
  return `urn:uuid:${[...parts, hex.slice(20, 32)].join("-")}`;
}

function compare(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
