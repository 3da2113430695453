// What is deployed is put together as it must be: the image and the systemd units, as far as text can tell.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, normalize } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { settings } from "../../src/config.ts";
import { loadConfig, parseConfigFile } from "../../src/load-config.ts";
import type { Setting } from "../../src/settings/kinds.ts";
import {
  copiesOf,
  dockerfileInstructions,
  dockerfileStages,
  environmentFile,
  environmentOf,
  exactImage,
  root,
  textOf,
  unitSettings,
} from "../support/packaging.ts";

const folder = mkdtempSync(join(tmpdir(), "interlock-packaging-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const version = (JSON.parse(textOf("package.json")) as { readonly version: string }).version;
const nowhere = { file: {} };

describe("the Dockerfile", () => {
  const text = textOf("deploy/docker/Dockerfile");
  const instructions = dockerfileInstructions(text);
  const stages = dockerfileStages(text);
  const image = stages.get("image") ?? [];
  const last = (name: string) => image.findLast((each) => each.name === name)?.rest ?? "";

  test("is understood, and has a stage that compiles, one that installs and one that runs", () => {
    expect(instructions.filter(({ name }) => name === "")).toEqual([]);
    expect([...stages.keys()]).toEqual(["build", "packages", "image"]);
  });

  test("builds on one base, named to the patch, which fits the versions of Node that the package allows", () => {
    const base = /^NODE_IMAGE=(.+)$/.exec(instructions[0]?.rest ?? "")?.[1] ?? "";
    expect(base).toMatch(exactImage);
    expect(base).toMatch(/^node:2[2-9]\.\d+\.\d+-[a-z]+-slim/);
    const from = instructions.filter(({ name }) => name === "FROM").map(({ rest }) => rest.split(" ")[0]);
    expect(new Set(from)).toEqual(new Set(["${NODE_IMAGE}"]));
    expect(text).not.toMatch(/:latest\b/);
  });

  test("fetches nothing but locked packages, and runs no script of theirs", () => {
    expect(instructions.filter(({ name }) => name === "ADD")).toEqual([]);
    const commands = instructions.filter(({ name }) => name === "RUN").map(({ rest }) => rest);
    const installs = commands.filter((command) => /\bnpm\b/.test(command));
    expect(installs).toHaveLength(2);
    for (const install of installs) expect(install).toMatch(/^npm ci (?=.*--ignore-scripts)/);
    expect(commands.filter((command) => /\b(curl|wget|apt-get|npx)\b/.test(command))).toEqual([]);
  });

  test("leaves the compiler and what only tests need behind", () => {
    const runtime = stages.get("packages")?.find(({ rest }) => rest.startsWith("npm ci"));
    expect(runtime?.rest).toContain("--omit=dev");
    const sources = copiesOf(image).filter(({ from }) => from === undefined);
    expect(sources.flatMap((copy) => copy.sources)).toEqual([
      "package.json",
      "LICENSE",
      "deploy/docker/health-check.mjs",
    ]);
  });

  test("copies only what is there and what the build may see", () => {
    const sources = [...stages.values()]
      .flatMap(copiesOf)
      .filter(({ from }) => from === undefined)
      .flatMap((copy) => copy.sources);
    expect(sources.filter((source) => !existsSync(join(root, source)))).toEqual([]);
    expect(sources.filter((source) => isIgnored(source))).toEqual([]);
  });

  test.each([
    ".interlock/keys.json",
    ".git/config",
    "node_modules/zod/package.json",
    "deploy/compose/secrets/interlock.yaml",
    "proof/planted/plant-bugs.ts",
    "dist/index.js",
    "chaos/histories/1.jsonl",
  ])("does not let the build see %s", (path) => {
    expect(isIgnored(path)).toBe(true);
  });

  test("runs as a user with a fixed number that is not root, and that owns its volume", () => {
    const [, uid = "", gid = ""] = /^(\d+):(\d+)$/.exec(last("USER")) ?? [];
    expect([Number(uid) >= 10_000, uid]).toEqual([true, gid]);
    const made = image.find(({ name }) => name === "RUN")?.rest ?? "";
    expect(made).toContain(`--uid ${uid} --gid ${gid}`);
    expect(made).toMatch(/install -d -o interlock -g interlock -m 0700 \/data$/);
    expect(last("VOLUME")).toBe('["/data"]');
    const order = image.map(({ name }) => name);
    expect(order.lastIndexOf("USER")).toBeGreaterThan(order.lastIndexOf("RUN"));
  });

  test("starts the server without a shell, and stops it by the signal that drains", () => {
    expect([last("ENTRYPOINT"), last("CMD"), last("STOPSIGNAL")]).toEqual([
      '["node", "/app/dist/cli/interlock.js"]',
      '["serve"]',
      "SIGTERM",
    ]);
    expect(last("HEALTHCHECK")).toMatch(/CMD \["node", "\/app\/health-check\.mjs", "livez"\]$/);
  });

  test("sets variables that the configuration knows, and exposes the port among them", () => {
    const { NODE_ENV, ...env } = environmentOf(image);
    const { config } = loadConfig({ ...nowhere, env });
    expect(NODE_ENV).toBe("production");
    expect(config["store.dataDirectory"]).toBe("/data");
    expect(last("EXPOSE")).toBe(String(config["gateway.port"]));
  });

  test("says which version it is", () => {
    expect(last("LABEL")).toContain(`org.opencontainers.image.version="${version}"`);
  });
});

describe("the systemd units", () => {
  const units = ["interlock.service", "interlock@.service"];
  const examples = (names: readonly string[]) =>
    Object.assign({}, ...names.map((name) => environmentFile(textOf(`deploy/systemd/${name}`)))) as Record<
      string,
      string
    >;

  test.each(units)("%s is held in: its own user, nothing to write but its state, no new rights", (unit) => {
    const set = unitSettings(textOf(`deploy/systemd/${unit}`));
    const value = (name: string) => set.get(`Service.${name}`)?.at(-1);
    expect([value("User"), value("NoNewPrivileges"), value("CapabilityBoundingSet")]).toEqual([
      "interlock",
      "yes",
      "",
    ]);
    expect([value("ProtectSystem"), value("ProtectHome"), value("PrivateTmp")]).toEqual([
      "strict",
      "yes",
      "yes",
    ]);
    expect(value("Restart")).toBe("on-failure");
    // V8 cannot compile then.
    expect(value("MemoryDenyWriteExecute")).toBeUndefined();
    expect(set.get("Service.StateDirectory")).toEqual(
      unit === "interlock.service" ? ["interlock"] : undefined,
    );
  });

  test.each(units)("%s waits longer for a stop than the server takes", (unit) => {
    const set = unitSettings(textOf(`deploy/systemd/${unit}`));
    const [, seconds = ""] = /^(\d+)s$/.exec(set.get("Service.TimeoutStopSec")?.[0] ?? "") ?? [];
    expect(Number(seconds) * 1_000).toBeGreaterThan(settings["gateway.drainMs"].default + 5_000);
    expect(set.get("Service.KillSignal")).toEqual(["SIGTERM"]);
  });

  test("interlock.service keeps its data where its user may write", () => {
    const set = unitSettings(textOf("deploy/systemd/interlock.service"));
    const own = (set.get("Service.Environment")?.[0] ?? "").split(" ").map((pair) => pair.split("="));
    const env = { ...Object.fromEntries(own), ...examples(["interlock.env"]) };
    const { config } = loadConfig({ ...nowhere, env });
    expect(config["store.dataDirectory"]).toBe(`/var/lib/${set.get("Service.StateDirectory")?.[0]}`);
  });

  test.each(["gateway-1", "engine-1", "scheduler-1"])(
    "interlock@%s gets settings that are accepted",
    (instance) => {
      const env = examples(["cluster.env", `${instance}.env`]);
      const { config } = loadConfig({
        file: parseConfigFile(textOf("deploy/systemd/secrets.yaml"), "secrets.yaml"),
        env,
      });
      expect([config["process.roles"], config["store.kind"]]).toEqual([
        instance.replace(/-\d$/, ""),
        "redis",
      ]);
    },
  );

  test("the examples name settings only, and no two processes of one machine the same port", () => {
    const files = readdirSync(join(root, "deploy/systemd")).filter((name) => name.endsWith(".env"));
    const names = new Set(Object.values<Setting>(settings).map(({ env }) => `INTERLOCK_${env}`));
    const commented = files.flatMap(
      (name) => textOf(`deploy/systemd/${name}`).match(/INTERLOCK_[A-Z_]+/g) ?? [],
    );
    expect(commented.filter((name) => !names.has(name))).toEqual([]);
    const ports = files
      .filter((name) => /-1\.env$/.test(name))
      .map((name) => examples([name]).INTERLOCK_GATEWAY_PORT);
    expect(new Set(ports).size).toBe(3);
  });

  test("are understood by systemd, where it is installed, and judged as little exposed", () => {
    const analyze = ["/usr/bin/systemd-analyze", "/bin/systemd-analyze"].find(existsSync);
    const files = units.map((unit) => writeUnit(unit));
    // Without systemd the structure was checked above; that the copies were made says that the paths are still the units' own.
    expect(files).toHaveLength(2);
    if (analyze === undefined) return;
    const verified = spawnSync(analyze, ["verify", "--recursive-errors=no", ...files], { encoding: "utf8" });
    expect([verified.stderr.trim(), verified.status]).toEqual(["", 0]);
    for (const file of files) {
      const judged = execFileSync(analyze, ["security", "--offline=true", "--threshold=20", file], {
        encoding: "utf8",
      });
      expect(judged).toMatch(/Overall exposure level for \S+: 1\.\d OK/);
    }
  });
});

/** A copy whose program and files are on this machine, since systemd looks whether they are; a template as one of its instances. */
function writeUnit(unit: string): string {
  const text = textOf(`deploy/systemd/${unit}`)
    .replace(
      "ExecStart=/usr/bin/node /opt/interlock/dist/cli/interlock.js serve",
      `ExecStart=${process.execPath} serve`,
    )
    .replaceAll("EnvironmentFile=/", "EnvironmentFile=-/");
  if (!text.includes(process.execPath)) throw new Error(`${unit} starts something else`);
  const file = join(folder, unit.replace("@.", "@gateway-1."));
  writeFileSync(file, text);
  return file;
}

/** As Docker reads it: the last pattern that matches a path or a folder above it decides. */
function isIgnored(path: string): boolean {
  let ignored = false;
  const parts = normalize(path).split("/");
  const paths = parts.map((_, index) => parts.slice(0, index + 1).join("/"));
  for (const line of textOf(".dockerignore").split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const isException = line.startsWith("!");
    const pattern = isException ? line.slice(1) : line;
    if (paths.some((each) => asExpression(pattern).test(each))) ignored = !isException;
  }
  return ignored;
}

/** The star of these patterns stands for anything but a slash, a dot in front included. */
function asExpression(pattern: string): RegExp {
  const parts = pattern.split("*").map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join("[^/]*")}$`);
}
