// The user with the least rights: it can do all that the store does and nothing else, and never beside its own prefix.
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createClient } from "@redis/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { leastRights, scriptCommands } from "../../src/adapters/redis/least-rights.ts";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { readOperationSource } from "../../src/adapters/redis/scripts.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import { defaultStoreSettings, operationNames, type Store } from "../../src/ports/store.ts";
import { call, Harness, key } from "../../src/testing/conformance/harness.ts";
import { performScenario, prepareScenario, scenarioNames } from "../support/operation-scenarios.ts";
import { takeSnapshot } from "../support/redis-snapshot.ts";
import { silentLog } from "../support/silent-log.ts";

const root = join(import.meta.dirname, "../..");

let server: RedisServer;
beforeAll(async () => {
  server = await startRedisServer();
  for (const prefix of ["interlock", "neighbour"]) {
    await server.command(...leastRights(prefix, prefix, "secret").split(" "));
  }
});
afterAll(() => server?.stop());

function openAs(user: string, prefix: string): Promise<Store> {
  return openRedisStore({
    urls: [server.url],
    user,
    password: "secret",
    mode: "standalone",
    prefix,
    settings: defaultStoreSettings,
    clock: systemClock,
    log: silentLog,
  });
}

const newHarness = (store: Store) => new Harness(store, systemClock, randomBytes(6).toString("hex"));

/** One command as a user, on a connection of its own: its reply, or the error that Redis answers. */
async function attempt(user: string, ...command: string[]): Promise<unknown> {
  const client = createClient({ url: `redis://${user}:secret@127.0.0.1:${server.port}` });
  client.on("error", () => {});
  await client.connect();
  const reply = await client.sendCommand(command).catch((error: Error) => error);
  client.destroy();
  return reply;
}

describe("the rights", () => {
  test("stand in the guide as one line to copy, and are the commands that the scripts use", () => {
    const guide = readFileSync(join(root, "docs/guide/redis.md"), "utf8");
    expect(guide).toContain(leastRights("interlock", "interlock", "<password>"));
    const folder = join(root, "src/adapters/redis/lua");
    const sources = readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".lua"))
      .map((name) => readFileSync(join(folder, name), "utf8"));
    const used = sources.flatMap((text) =>
      [...text.matchAll(/(?:redis\.call\(|\{\s*)"([A-Z]+)"/g)].map(([, name]) => name as string),
    );
    // A migration of old data needs one more right, for as long as it takes.
    const wanted = new Set(used.filter((name) => name !== "SCAN"));
    expect([...scriptCommands].sort()).toEqual([...wanted].sort());
  });

  test.each(scenarioNames)("are enough for %s", async (name) => {
    const store = await openAs("interlock", "interlock");
    try {
      const harness = newHarness(store);
      const scenario = await prepareScenario(name, harness, (removed) => server.command("DEL", removed));
      expect((await performScenario(harness, scenario)).kind).toBe(scenario.kind);
    } finally {
      await store.close();
    }
  });

  const refused = [
    ...[
      ["CONFIG", "GET", "*"],
      ["CONFIG", "SET", "maxmemory", "1"],
      ["KEYS", "*"],
      ["SCAN", "0"],
      ["RANDOMKEY"],
    ],
    ...[["FLUSHALL"], ["FLUSHDB"], ["SWAPDB", "0", "1"], ["DEBUG", "SLEEP", "0"], ["SHUTDOWN"], ["SAVE"]],
    ...[["REPLICAOF", "NO", "ONE"], ["MIGRATE", "h", "1", "k", "0", "1"], ["MONITOR"], ["CLIENT", "LIST"]],
    ...[
      ["CLIENT", "KILL", "TYPE", "normal"],
      ["ACL", "LIST"],
      ["ACL", "SETUSER", "interlock", "+@all"],
    ],
    ...[
      ["SCRIPT", "FLUSH"],
      ["SCRIPT", "LOAD", "return 1"],
      ["FUNCTION", "FLUSH"],
      ["MODULE", "LIST"],
    ],
    ...[
      ["PUBLISH", "news", "1"],
      ["SUBSCRIBE", "news"],
      ["COMMAND"],
      ["LATENCY", "RESET"],
      ["SLOWLOG", "GET"],
    ],
  ];
  test.each(refused.map((command) => [command.join(" "), command] as const))(
    "do not cover %s",
    async (_, command) => {
      expect(String(await attempt("interlock", ...command))).toMatch(/NOPERM|DEBUG command not allowed/);
    },
  );

  test("a script of its own cannot do more than its user: no other prefix, no other command", async () => {
    await server.command("SET", "neighbour:{p00}:schema", "2");
    const evaluate = (source: string, ...keys: string[]) =>
      attempt("interlock", "EVAL", source, String(keys.length), ...keys);
    expect(await evaluate("return redis.call('TIME')[1]")).toMatch(/^\d+$/);
    const get = "return redis.call('GET', KEYS[1])";
    const denials = [
      await evaluate(get, "neighbour:{p00}:schema"),
      await evaluate("return redis.call('GET', 'neighbour:{p00}:schema')"),
      await evaluate("return redis.call('SET', 'neighbour:{p00}:schema', '1')"),
      await evaluate("return redis.call('CONFIG', 'GET', 'dir')"),
      await evaluate("return redis.call('KEYS', '*')"),
      await evaluate("return redis.call('FLUSHALL')"),
    ];
    for (const denial of denials)
      expect(String(denial)).toMatch(/NOPERM|The user executing the script can't|not allowed from script/);
  });

  test("can leave out EVAL where the scripts are known to the server, and say so where they are not", async () => {
    const strict = leastRights("strict", "interlock", "secret").replace(" +eval ", " ").split(" ");
    await server.command(...strict);
    // The script that opens a partition is known when somebody with the right has opened one.
    await (await openAs("interlock", "interlock")).close();
    for (const name of operationNames) await server.command("SCRIPT", "LOAD", readOperationSource(name));
    const store = await openAs("strict", "interlock");
    await newHarness(store).admit();
    await server.command("SCRIPT", "FLUSH");
    const harness = newHarness(store);
    const answer = await store.admit({ tenant: harness.tenant, run: harness.newRun() }, call);
    expect(answer).toMatchObject({ kind: "unavailable", cause: expect.stringMatching(/^NOPERM.*eval/) });
    await store.close();
  });
});

describe("two installations on one server", () => {
  test("neither sees nor changes anything of the other, although tenant, key and lock have the same names", async () => {
    const [ours, theirs] = [await openAs("interlock", "interlock"), await openAs("neighbour", "neighbour")];
    const unique = randomBytes(6).toString("hex");
    const [here, there] = [ours, theirs].map((store) => new Harness(store, systemClock, unique)) as [
      Harness,
      Harness,
    ];
    const { tenant } = here;
    const theirRun = await there.admit(there.newRun({ key: key("k") }));
    await there.set({ maxConcurrentRuns: 1 });
    const lock = { namespace: "public", name: "printer" } as const;
    await there.acquire(lock, 60_000);
    const theirLines = async () =>
      (await takeSnapshot(server)).filter((line) => line.startsWith("neighbour:"));
    const before = await theirLines();

    expect(await ours.getTenant({ tenant }, call)).toMatchObject({ record: { version: 0 } });
    expect(await ours.listRuns({ tenant, limit: 10 }, call)).toMatchObject({ runs: [] });
    expect((await ours.loadRun({ tenant, runId: theirRun }, call)).kind).toBe("not_found");
    expect((await ours.deleteRun({ tenant, runId: theirRun, actor: "a" }, call)).kind).toBe("not_found");
    expect((await ours.inspectLock({ tenant, lock }, call)).kind).toBe("free");
    for (let runs = 0; runs < 3; runs += 1) await here.admit();
    await here.admit(here.newRun({ key: key("k") }));
    await here.acquire(lock, 60_000);
    await ours.sweep({ partition: here.partition }, call);
    expect(await theirLines()).toEqual(before);
    expect(before.length).toBeGreaterThan(64);

    await expect(openAs("interlock", "neighbour")).rejects.toMatchObject({
      detail: expect.stringMatching(/NOPERM/),
    });
    expect(String(await attempt("interlock", "GET", "neighbour:{p00}:schema"))).toMatch(/NOPERM/);
    await ours.close();
    await theirs.close();
  });
});
