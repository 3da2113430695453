// A version as it was frozen: its SDK unpacked and loaded, its OpenAPI document, and its data in stores of the present code.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { openSqliteStore } from "../../src/adapters/sqlite/sqlite-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { startRedisServer } from "../../src/drills/servers/start-servers.ts";
import { defaultStoreSettings, type Store, type StoreSettings } from "../../src/ports/store.ts";
import type { Things } from "../support/gateway-world.ts";
import { silentLog } from "../support/silent-log.ts";

/** What the frozen data holds, by the names under which the tests ask for it. */
export type FrozenWorld = Things & {
  /** Keys as their owners have them; `foreign` is another tenant's admin. */
  readonly keys: Readonly<
    Record<"platform" | "admin" | "operator" | "viewer" | "worker" | "foreign", string>
  >;
  readonly endedRunId: string;
  /** Sleeps until an hour after the freeze. */
  readonly asleepRunId: string;
  /** Waits for a worker; its workflow's schema uses older and unknown keywords. */
  readonly describedRunId: string;
};

export type Sdk = typeof import("../../src/sdk/index.ts");

export type FrozenStore = { readonly store: Store; readonly world: FrozenWorld; remove(): Promise<void> };

const root = dirname(dirname(import.meta.dirname));
const fileOf = (version: string, name: string) => join(import.meta.dirname, version, name);
const jsonOf = (version: string, name: string): unknown =>
  JSON.parse(readFileSync(fileOf(version, name), "utf8"));

export const frozenDocument = (version: string): unknown =>
  JSON.parse(gunzipSync(readFileSync(fileOf(version, "openapi.json.gz"))).toString());

/** In a folder of its own, with the packages that it needs and nothing of the present code. */
export async function loadSdk(
  version: string,
): Promise<{ readonly sdk: Sdk; readonly operations: readonly string[]; remove(): void }> {
  const folder = mkdtempSync(join(tmpdir(), "interlock-frozen-"));
  const packages = join(folder, "node_modules");
  mkdirSync(join(packages, "interlock"), { recursive: true });
  execFileSync("tar", [
    ...["-xzf", fileOf(version, "sdk.tgz")],
    ...["-C", join(packages, "interlock"), "--strip-components=1"],
  ]);
  symlinkSync(join(root, "node_modules/eventsource-parser"), join(packages, "eventsource-parser"));
  const load = (file: string) => import(pathToFileURL(join(packages, "interlock/dist/sdk", file)).href);
  const sdk = (await load("index.js")) as Sdk;
  const { operations } = (await load("operations.js")) as { operations: object };
  return {
    sdk,
    operations: Object.keys(operations),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Nothing that was frozen is ever old enough to be removed. */
const aCenturyMs = 100 * 365 * 86_400_000;

export const frozenSettings: StoreSettings = {
  ...defaultStoreSettings,
  keyRetentionMs: aCenturyMs,
  runRetentionMs: aCenturyMs,
  deadLetterRetentionMs: aCenturyMs,
};

const base = { clock: systemClock, log: silentLog, settings: frozenSettings };

export const frozenStores: Readonly<Record<"SQLite" | "Redis", (version: string) => Promise<FrozenStore>>> = {
  async SQLite(version) {
    const directory = mkdtempSync(join(tmpdir(), "interlock-frozen-"));
    writeFileSync(join(directory, "interlock.db"), gunzipSync(readFileSync(fileOf(version, "sqlite.db.gz"))));
    return {
      store: await openSqliteStore({ ...base, directory }),
      world: jsonOf(version, "sqlite.json") as FrozenWorld,
      remove: async () => rmSync(directory, { recursive: true, force: true }),
    };
  },
  async Redis(version) {
    const server = await startRedisServer();
    const lines = gunzipSync(readFileSync(fileOf(version, "redis.txt.gz")))
      .toString()
      .trim()
      .split("\n");
    const restore = `
      for index = 1, #ARGV, 2 do
        local value = string.gsub(ARGV[index + 1], "..", function(pair) return string.char(tonumber(pair, 16)) end)
        redis.call("RESTORE", ARGV[index], 0, value)
      end`;
    for (let first = 0; first < lines.length; first += 500) {
      const words = lines.slice(first, first + 500).flatMap((line) => line.split(" "));
      await server.command("EVAL", restore, "0", ...words);
    }
    const urls = [server.url];
    return {
      store: await openRedisStore({ ...base, urls, mode: "standalone", prefix: "interlock" }),
      world: jsonOf(version, "redis.json") as FrozenWorld,
      remove: async () => void (await server.stop()),
    };
  },
};
