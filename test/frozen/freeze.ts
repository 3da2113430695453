// Freezes what users of this version have: its SDK, its OpenAPI document, and the data that its server leaves in SQLite and Redis.
//   npm run freeze        writes test/frozen/<version>; the stage `frozen` holds every later server against it
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { openSqliteStore } from "../../src/adapters/sqlite/sqlite-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { openApiDocument } from "../../src/api/openapi.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import type { Store } from "../../src/ports/store.ts";
import { createClient } from "../../src/sdk/index.ts";
import { type GatewayWorld, makeThings, openGatewayWorld, type Things } from "../support/gateway-world.ts";
import { eventually } from "../support/sdk-world.ts";
import { silentLog } from "../support/silent-log.ts";
import { type FrozenWorld, frozenSettings } from "./frozen-version.ts";

const root = dirname(dirname(import.meta.dirname));

type Manifest = { readonly version: string; readonly dependencies: Readonly<Record<string, string>> };

/** The compiled SDK as a package of its own: it needs nothing of the server at run time. */
function packSdk({ version, dependencies }: Manifest, file: string): void {
  const folder = mkdtempSync(join(tmpdir(), "interlock-freeze-"));
  try {
    execFileSync(process.execPath, [join(root, "scripts/build.mjs"), join(folder, "built")], {
      stdio: "inherit",
    });
    cpSync(join(folder, "built/sdk"), join(folder, "package/dist/sdk"), {
      recursive: true,
      filter: (path) => !/\.(map|d\.ts)$/.test(path),
    });
    const manifest = {
      name: "interlock",
      version,
      type: "module",
      exports: { "./sdk": "./dist/sdk/index.js" },
      dependencies: { "eventsource-parser": dependencies["eventsource-parser"] },
    };
    writeFileSync(join(folder, "package/package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
    execFileSync("tar", [
      "--sort=name",
      "--mtime=@0",
      "--owner=0",
      "--group=0",
      "-czf",
      file,
      "-C",
      folder,
      "package",
    ]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Beyond one of everything: a run that has ended, one that sleeps, and a schema in older words, which later rules may refuse. */
const furtherWorkflows = [
  { id: "asleep", steps: { rest: { type: "delay", delay_sec: 3_600 } } },
  { id: "computed", steps: { add: { type: "transform", input: { sum: "${input.left + input.right}" } } } },
  {
    id: "described",
    input_schema: {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      properties: {
        email: { type: "string", pattern: "^[^@\\s]+@[^@\\s]+$", format: "email" },
        card: { type: "string", "x-hint": "a number of 16 digits" },
        address: { $ref: "#/definitions/address" },
      },
      required: ["email"],
      dependencies: { card: ["address"] },
      definitions: { address: { type: "object", properties: { city: { type: "string", minLength: 1 } } } },
      remark: "a keyword that no draft knows",
    },
    steps: { send: { topic: "described", input: { to: "${input.email}" } } },
  },
];

async function makeFurther({ url, acme }: GatewayWorld): Promise<Omit<FrozenWorld, keyof Things | "keys">> {
  const client = createClient({ url, apiKey: acme.admin.text });
  for (const workflow of furtherWorkflows) await client.workflows.save(workflow);
  const started = await client.runs.start("computed", { left: 1, right: 2 });
  await client.runs.wait(started.run_id);
  const asleep = await client.runs.start("asleep", {});
  const described = await client.runs.start("described", { email: "ada@example.com" });
  await eventually("the whole trail is sealed", async () => {
    const { last } = await client.call("readAudit", { query: { limit: 1 } });
    const { status, sealed_to } = await client.audit.verify();
    return status === "intact" && sealed_to === last;
  });
  return {
    endedRunId: started.run_id,
    asleepRunId: asleep.run_id,
    describedRunId: described.run_id,
  };
}

async function fill(store: Store): Promise<FrozenWorld> {
  const world = await openGatewayWorld({}, store);
  try {
    const things = await makeThings(world);
    const further = await makeFurther(world);
    const { admin, operator, viewer, worker } = world.acme;
    return {
      ...things,
      ...further,
      keys: {
        platform: world.platform.text,
        admin: admin.text,
        operator: operator.text,
        viewer: viewer.text,
        worker: worker.text,
        foreign: world.globex.admin.text,
      },
    };
  } finally {
    await world.close();
  }
}

const base = { clock: systemClock, log: silentLog, settings: frozenSettings };

async function freezeSqlite(folder: string): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "interlock-freeze-"));
  try {
    const world = await fill(await openSqliteStore({ ...base, directory }));
    writeFileSync(join(folder, "sqlite.db.gz"), gzipSync(readFileSync(join(directory, "interlock.db"))));
    writeFileSync(join(folder, "sqlite.json"), `${JSON.stringify(world, null, 2)}\n`);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function freezeRedis(folder: string): Promise<void> {
  const server = await startRedisServer();
  try {
    const urls = [server.url];
    const world = await fill(
      await openRedisStore({ ...base, urls, mode: "standalone", prefix: "interlock" }),
    );
    const keys = await dumpOf(server);
    writeFileSync(join(folder, "redis.txt.gz"), gzipSync(`${keys.join("\n")}\n`));
    writeFileSync(join(folder, "redis.json"), `${JSON.stringify(world, null, 2)}\n`);
  } finally {
    await server.stop();
  }
}

/** `<key> <value as DUMP writes it, in hexadecimal>`; keys that expire are left out: they would have. */
async function dumpOf(server: RedisServer): Promise<readonly string[]> {
  const script = `
    local lines = {}
    for _, key in ipairs(redis.call("KEYS", "*")) do
      if redis.call("PTTL", key) == -1 then
        local hex = string.gsub(redis.call("DUMP", key), ".", function(c) return string.format("%02x", string.byte(c)) end)
        lines[#lines + 1] = key .. " " .. hex
      end
    end
    table.sort(lines)
    return lines`;
  return server.command<string[]>("EVAL", script, "0");
}

const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;
const folder = join(import.meta.dirname, manifest.version);
mkdirSync(folder, { recursive: true });
packSdk(manifest, join(folder, "sdk.tgz"));
writeFileSync(join(folder, "openapi.json.gz"), gzipSync(JSON.stringify(openApiDocument())));
await freezeSqlite(folder);
await freezeRedis(folder);
console.log(`frozen in ${folder}`);
