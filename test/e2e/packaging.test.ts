// What is deployed runs, as far as that can be tried without a container engine: what the Dockerfile copies is built and started as it
// says, and processes with the settings of the compose file work on servers with its configuration files and survive a failover.
import { execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";
import { parse } from "yaml";
import { type ComposeServers, startComposeServers } from "../support/compose-servers.ts";
import {
  copiesOf,
  dockerfileStages,
  environmentOf,
  type Instruction,
  readCompose,
  root,
  textOf,
} from "../support/packaging.ts";
import { type Program, plainEnvironment, servedBy, startProgram, watchChild } from "../support/program.ts";

const undo: Array<() => unknown> = [];
afterAll(async () => {
  for (const step of undo.reverse()) await step();
});

function temporaryFolder(): string {
  mkdirSync(join(root, ".setup"), { recursive: true });
  const folder = mkdtempSync(join(root, ".setup", "image-"));
  undo.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const stages = dockerfileStages(textOf("deploy/docker/Dockerfile"));

/** The files of one stage, from the checkout or from the folders of earlier stages. */
function fillStage(
  stage: readonly Instruction[],
  folder: string,
  earlier: Readonly<Record<string, string>>,
): void {
  for (const { from, sources, target } of copiesOf(stage)) {
    for (const source of sources) {
      const origin =
        from === undefined ? join(root, source) : `${earlier[from]}/${source.split("/").slice(2).join("/")}`;
      const place = target === "./" ? join(folder, source) : join(folder, target);
      if (source.endsWith("node_modules")) symlinkSync(join(root, "node_modules"), place);
      else cpSync(origin, place, { recursive: true });
    }
  }
}

test("what the Dockerfile copies is enough to build the server, start it, find it healthy and stop it", async () => {
  const build = temporaryFolder();
  const image = temporaryFolder();
  const data = temporaryFolder();
  fillStage(stages.get("build") ?? [], build, {});
  symlinkSync(join(root, "node_modules"), join(build, "node_modules"));
  execFileSync(process.execPath, ["scripts/build.mjs"], { cwd: build, stdio: "pipe" });
  const last = stages.get("image") ?? [];
  fillStage(last, image, { build });
  const rest = (name: string) => last.findLast((each) => each.name === name)?.rest ?? "";
  const words = (text: string) =>
    (JSON.parse(text) as string[]).map((word) => word.replace("/app/", `${image}/`));
  const env = { ...plainEnvironment(), ...environmentOf(last), INTERLOCK_DATA_DIRECTORY: data };
  const [, ...entrypoint] = words(rest("ENTRYPOINT"));
  const child = spawn(process.execPath, [...entrypoint, ...words(rest("CMD")), "--port", "0"], {
    cwd: image,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const program = watchChild(child, "the image");
  undo.push(() => program.kill());
  const { url, keys_file } = await servedBy(program);
  expect(keys_file).toBe(join(data, "keys.json"));
  const [, ...check] = words(rest("HEALTHCHECK").replace(/^.* CMD /, ""));
  const ask = (port: string) =>
    promisify(execFile)(process.execPath, check, { env: { ...env, INTERLOCK_GATEWAY_PORT: port } });
  await ask(new URL(url).port);
  process.kill(child.pid as number, "SIGTERM");
  expect(await program.ended).toBe(0);
  await expect(ask(new URL(url).port)).rejects.toMatchObject({ code: 1 });
});

type Keys = { readonly platform: string; readonly admin: string };

/** A process with the environment of one service, and the addresses of this machine. */
async function startService(
  servers: ComposeServers,
  name: string,
): Promise<{ program: Program; url: string; keys?: Keys }> {
  const service = readCompose().services[name];
  const addresses = (kind: string, of: ComposeServers["nats"]) =>
    of.map(({ port }) => `${kind}://127.0.0.1:${port}`).join(",");
  // The credentials that the settings file has for the Sentinels, at the addresses of this machine.
  const { "store.redisUrls": sentinels = "" } = parse(
    readFileSync(join(servers.secrets, "interlock.yaml"), "utf8"),
  ) as Readonly<Record<string, string>>;
  const asked = new URL(sentinels.split(",")[0] ?? "");
  const environment = {
    ...service?.environment,
    // No balancer has to notice anything here.
    INTERLOCK_GATEWAY_LINGER_MS: "100",
    INTERLOCK_CONFIG: join(servers.secrets, "interlock.yaml"),
    INTERLOCK_REDIS_URLS: servers.sentinels
      .map(({ port }) => `redis://${asked.username}:${asked.password}@127.0.0.1:${port}`)
      .join(","),
    INTERLOCK_NATS_URLS: addresses("nats", servers.nats),
  };
  const settings = Object.entries(environment).map(([variable, value]) => [
    variable.replace("INTERLOCK_", ""),
    value,
  ]);
  const args = [...(service?.command ?? []), "--port", "0"];
  const program = startProgram("interlock.ts", {
    args,
    settings: Object.fromEntries(settings) as Record<string, string>,
  });
  undo.push(() => program.kill());
  const [line] = await program.shows(/^\{"url".*\}$/m);
  return { program, ...(JSON.parse(line) as { readonly url: string; readonly keys?: Keys }) };
}

/** What a Redis server or a Sentinel answers to somebody without a password. */
async function anonymous(port: number, command: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  try {
    socket.write(`${command}\r\n`);
    const [answer] = (await once(socket, "data")) as [Buffer];
    return answer.toString();
  } finally {
    socket.destroy();
  }
}

/** Asks until the answer is good, with the same key: the store may be away for some seconds. */
async function startRun(url: string, key: string, idempotencyKey: string): Promise<string> {
  const deadline = performance.now() + 30_000;
  for (;;) {
    const answer = await fetch(`${url}/api/v1/workflows/hello/runs`, {
      method: "POST",
      headers: { "X-API-Key": key, "Content-Type": "application/json", "Idempotency-Key": idempotencyKey },
      body: "{}",
    });
    const text = await answer.text();
    if (answer.ok) return (JSON.parse(text) as { readonly run_id: string }).run_id;
    if (answer.status !== 503 || performance.now() > deadline) throw new Error(`${answer.status}: ${text}`);
    await delay(100);
  }
}

test("processes with the settings of the compose file work on its servers, and go on after the primary and a NATS server are gone", async () => {
  const servers = await startComposeServers();
  undo.push(() => servers.stop());
  const gateway = await startService(servers, "gateway-1");
  const others = await Promise.all(
    ["gateway-2", "engine-1", "scheduler-1"].map((name) => startService(servers, name)),
  );
  const { keys } = gateway;
  if (keys === undefined) throw new Error(`no keys were made:\n${gateway.program.output()}`);
  for (const { url } of [gateway, ...others]) expect((await fetch(`${url}/readyz`)).status).toBe(200);
  // As Prometheus asks, with the platform's key.
  const metrics = await fetch(`${others[1]?.url}/metrics`, {
    headers: { Authorization: `Bearer ${keys.platform}` },
  });
  expect(await metrics.text()).toContain("# TYPE interlock_");
  for (const { port } of [...servers.redis, ...servers.sentinels])
    expect(await anonymous(port, "PING")).toMatch(/^-NOAUTH/);
  const saved = await fetch(`${gateway.url}/api/v1/workflows`, {
    method: "POST",
    headers: { "X-API-Key": keys.admin, "Content-Type": "application/json" },
    body: JSON.stringify({ id: "hello", steps: { ask: { type: "approval" } } }),
  });
  expect(saved.status).toBeLessThan(300);
  const before = await startRun(gateway.url, keys.admin, "before");
  await servers.redis[0]?.kill();
  await servers.nats[0]?.kill();
  const after = await startRun(others[0]?.url ?? "", keys.admin, "after");
  expect(after).not.toBe(before);
  // Nothing that was answered is lost, and its key still finds it.
  expect(await startRun(gateway.url, keys.admin, "before")).toBe(before);
  const all = [gateway, ...others].map(({ program }) => program);
  for (const program of all) process.kill(program.process.pid as number, "SIGTERM");
  expect(await Promise.all(all.map((program) => program.ended))).toEqual(all.map(() => 0));
});
