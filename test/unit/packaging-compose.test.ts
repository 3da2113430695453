// The compose file is put together as it must be, as far as text can tell: what it names is there, and its settings are accepted.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { isBelow, patchedVersion } from "../../src/adapters/nats/link.ts";
import { knownFlaw } from "../../src/adapters/redis/examine.ts";
import { leastRights } from "../../src/adapters/redis/least-rights.ts";
import { settings } from "../../src/config.ts";
import { loadConfig } from "../../src/load-config.ts";
import {
  dockerfileStages,
  environmentOf,
  exactImage,
  readCompose,
  root,
  textOf,
} from "../support/packaging.ts";

const folder = mkdtempSync(join(tmpdir(), "interlock-compose-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const made = join(folder, "made");
const make = () =>
  spawnSync(process.execPath, [join(root, "deploy/compose/make-secrets.mjs"), made], { encoding: "utf8" });
const firstMade = make();

describe("the compose file", () => {
  const compose = readCompose();
  const services = Object.entries(compose.services).map(([name, service]) => ({ name, ...service }));
  const own = services.filter(({ image }) => image?.startsWith("interlock:"));
  const named = (pattern: RegExp) => services.filter(({ name }) => pattern.test(name));

  test("has two gateways, two engines, a scheduler, three Redis servers and Sentinels, three NATS servers and Prometheus", () => {
    const kinds: Record<string, number> = {};
    for (const { name } of services) {
      const kind = name.replace(/-\d$/, "");
      kinds[kind] = (kinds[kind] ?? 0) + 1;
    }
    expect(kinds).toEqual({
      ...{ gateway: 2, engine: 2, scheduler: 1, redis: 3, sentinel: 3, nats: 3 },
      ...{ "nats-storage": 1, prometheus: 1, grafana: 1 },
    });
    expect(services.filter(({ profiles }) => profiles !== undefined).map(({ name }) => name)).toEqual([
      "grafana",
    ]);
  });

  test.each(services)("$name is held in: no root, no capability, nothing to write, bounded", (service) => {
    expect(service).toMatchObject({
      read_only: true,
      cap_drop: ["ALL"],
      security_opt: ["no-new-privileges:true"],
      pids_limit: expect.any(Number),
      deploy: {
        resources: { limits: { memory: expect.stringMatching(/^\d+M$/), cpus: expect.any(String) } },
      },
    });
    expect(service.image).toMatch(exactImage);
    const isChown = service.name === "nats-storage";
    expect(service.cap_add).toEqual(isChown ? ["CHOWN"] : undefined);
    expect(service.user).toMatch(isChown ? /^0:0$/ : /^[1-9]\d*:\d+$/);
    expect(service.restart).toBe(isChown ? "no" : "unless-stopped");
  });

  test.each(own)(
    "$name has settings that are accepted, the same as the others but for its roles",
    ({ name, ...service }) => {
      const [word, flag, roles = ""] = service.command ?? [];
      expect([word, flag]).toEqual(["serve", "--roles"]);
      expect(name.startsWith(roles)).toBe(true);
      const { INTERLOCK_CONFIG, ...environment } = service.environment ?? {};
      expect(INTERLOCK_CONFIG).toBe("/run/secrets/interlock.yaml");
      const image = environmentOf(dockerfileStages(textOf("deploy/docker/Dockerfile")).get("image") ?? []);
      const { NODE_ENV: _, ...ofImage } = image;
      const { config } = loadConfig({
        file: secretSettings(),
        env: { ...ofImage, ...environment },
        overrides: { "process.roles": roles },
      });
      expect([config["store.kind"], config["store.redisMode"], config["store.durability"]]).toEqual([
        ...["redis", "sentinel", "replicated"],
      ]);
      expect(config["bus.replicas"]).toBe(named(/^nats-\d$/).length);
      const graceSeconds = Number.parseInt(service.stop_grace_period ?? "", 10);
      expect(graceSeconds * 1_000).toBeGreaterThan(config["gateway.drainMs"] + 5_000);
      expect(config["gateway.lingerMs"]).toBeLessThan(config["gateway.drainMs"]);
    },
  );

  test("tells every process of all Sentinels and all NATS servers", () => {
    const environment = compose.services["engine-1"]?.environment ?? {};
    const hosts = (urls = "") => urls.split(",").map((url) => new URL(url).hostname);
    const sentinels = parse(readFileSync(join(made, "interlock.yaml"), "utf8"))["store.redisUrls"];
    expect(hosts(sentinels)).toEqual(named(/^sentinel-\d$/).map(({ name }) => name));
    expect(hosts(environment.INTERLOCK_NATS_URLS)).toEqual(named(/^nats-\d$/).map(({ name }) => name));
  });

  const isThere = (volume: string) =>
    volume.startsWith("../") ? existsSync(join(root, "deploy/compose", volume)) : volume in compose.volumes;

  test("names only files, volumes, networks, secrets, configurations and services that are there", () => {
    const problems = services.flatMap(({ name, volumes = [], networks = [], ...service }) => {
      const missing = [
        ...(service.secrets ?? []).filter((secret) => !(secret in compose.secrets)),
        ...(service.configs ?? [])
          .map(({ source }) => source)
          .filter((source) => !(source in compose.configs)),
        ...Object.keys(service.depends_on ?? {}).filter((other) => !(other in compose.services)),
        ...(Array.isArray(networks) ? networks : Object.keys(networks)).filter(
          (network: string) => !(network in compose.networks),
        ),
        ...volumes.map((volume) => volume.split(":")[0] ?? "").filter((source) => !isThere(source)),
      ];
      return missing.map((what) => `${name}: ${what}`);
    });
    expect(problems).toEqual([]);
    const configured = Object.values(compose.configs).map(({ file }) => `deploy/compose/${file}`);
    expect(configured.filter((file) => !existsSync(join(root, file)))).toEqual([]);
    expect(Object.values(compose.secrets).map(({ file }) => file)).toEqual(
      Object.keys(compose.secrets).map((name) => `secrets/${name}`),
    );
  });

  test("is reached from this machine only, and its stores from no machine", () => {
    const published = services.flatMap(({ ports = [] }) => ports);
    expect(published.filter((port) => !port.startsWith("127.0.0.1:"))).toEqual([]);
    expect(named(/^(redis|sentinel|nats)-/).filter(({ ports }) => ports !== undefined)).toEqual([]);
    expect(compose.networks.store).toMatchObject({ internal: true });
  });

  test("waits for what is healthy, and says of everything that goes on how to tell", () => {
    const silent = services.filter(
      ({ healthcheck, image }) => healthcheck === undefined && !image?.startsWith("interlock:"),
    );
    expect(silent.map(({ name }) => name)).toEqual(["nats-storage"]);
    const conditions = services.flatMap(({ depends_on = {} }) => Object.entries(depends_on));
    expect(conditions.filter(([name, { condition }]) => condition !== awaited(name))).toEqual([]);
  });

  test("has Prometheus watch every process, with a key that it is given and rules that are there", () => {
    const watched = parse(textOf("deploy/compose/prometheus.yml")) as Watched;
    const [scrape] = watched.scrape_configs;
    const port = settings["gateway.port"].default;
    const targets = scrape?.static_configs.flatMap((each) => each.targets);
    expect(targets).toEqual(own.map(({ name }) => `${name}:${port}`));
    const prometheus = compose.services.prometheus;
    const key = scrape?.authorization.credentials_file.replace("/run/secrets/", "") ?? "";
    expect([prometheus?.secrets, scrape?.job_name]).toEqual([[key], "interlock"]);
    const [rules = ""] = prometheus?.volumes ?? [];
    const [source = "", target = ""] = rules.split(":");
    expect(watched.rule_files).toEqual([target]);
    expect(existsSync(join(root, "deploy/compose", source))).toBe(true);
    expect(prometheus?.command?.[0]).toBe(`--config.file=${prometheus?.configs?.[0]?.target}`);
  });

  test("gives the Sentinels the address of the first primary, and the replicas the same", () => {
    const { networks } = compose.services["redis-1"] ?? {};
    const address = (networks as Record<string, { readonly ipv4_address: string }>).store?.ipv4_address;
    expect(textOf("deploy/compose/sentinel.conf")).toContain(`sentinel monitor interlock ${address} 6379 2`);
    const roles = named(/^redis-/).map(({ environment }) => environment?.ROLE_LINE);
    expect(roles).toEqual(["replica-priority 100", `replicaof ${address} 6379`, `replicaof ${address} 6379`]);
  });
});

type Watched = {
  readonly rule_files: readonly string[];
  readonly scrape_configs: ReadonlyArray<{
    readonly job_name: string;
    readonly authorization: { readonly credentials_file: string };
    readonly static_configs: ReadonlyArray<{ readonly targets: readonly string[] }>;
  }>;
};

const awaited = (name: string) =>
  name === "nats-storage" ? "service_completed_successfully" : "service_healthy";

describe("the servers of the compose file", () => {
  test("are set up as the guide asks: nothing evicted, nothing lost at a restart, no answer without a replica", () => {
    const lines = textOf("deploy/compose/redis.conf").split("\n");
    for (const line of ["maxmemory-policy noeviction", "appendonly yes", "min-replicas-to-write 1"]) {
      expect(lines).toContain(line);
    }
  });

  test("have no version with a flaw that doctor warns of", () => {
    const { services } = readCompose();
    const versionOf = (name: string) => /:(\d+\.\d+\.\d+)/.exec(services[name]?.image ?? "")?.[1] ?? "";
    for (const name of ["redis-1", "sentinel-1"]) {
      const version = versionOf(name);
      expect([
        name,
        version,
        knownFlaw((field) => (field === "redis_version" ? version : undefined)),
      ]).toEqual([name, version, undefined]);
    }
    expect(isBelow(versionOf("nats-1"), patchedVersion)).toBe(false);
  });

  test("take nobody without a password, and show NATS's monitoring to their own container only", () => {
    const templates = ["redis-users.acl.template", "sentinel-users.acl.template"];
    for (const users of templates.map((name) => textOf(`deploy/compose/${name}`))) {
      expect(users).toMatch(/^user default off /m);
      expect(users).not.toContain("nopass");
      expect(users).not.toMatch(/\+@|allkeys|allcommands/);
    }
    expect(textOf("deploy/compose/nats.conf")).toMatch(/^http: 127\.0\.0\.1:8222$/m);
  });

  test("let Interlock ask Sentinels what the guide says, and not more", () => {
    const [, line = ""] =
      /^user interlock (.*)$/m.exec(textOf("deploy/compose/sentinel-users.acl.template")) ?? [];
    const [, asked = ""] =
      /Sentinels' own user[^`]*`ACL SETUSER interlock reset ([^`]*)`/.exec(textOf("docs/guide/redis.md")) ??
      [];
    expect(line.replace(" resetchannels -@all", "").replace("ASKING_PASSWORD", "<password>")).toBe(asked);
  });

  test("let Interlock do on Redis what the least rights are, and not more", () => {
    const [, line = ""] =
      /^user interlock (.*)$/m.exec(textOf("deploy/compose/redis-users.acl.template")) ?? [];
    const asked = leastRights("interlock", "interlock", "REDIS_PASSWORD").replace(
      "ACL SETUSER interlock reset ",
      "",
    );
    const words = (text: string) =>
      text
        .split(" ")
        .filter((word) => !["resetchannels", "-@all"].includes(word))
        .sort();
    expect(words(line)).toEqual(words(asked));
  });

  test("let Interlock do on NATS what the guide lists, and nobody else anything", () => {
    const users = textOf("deploy/compose/nats-users.conf.template");
    const guide = /```conf\n([\s\S]*?)```/.exec(textOf("docs/guide/nats.md"))?.[1] ?? "";
    const subjects = (text: string) => [...text.matchAll(/"([^"]+)"/g)].map(([, subject]) => subject);
    const ofControlPlane = guide.slice(0, guide.indexOf("user: acme-worker"));
    expect(subjects(users)).toEqual(subjects(ofControlPlane));
    expect(users.match(/user:/g)).toHaveLength(1);
    expect(users).not.toContain("no_auth_user");
  });
});

describe("make-secrets.mjs", () => {
  test("makes every secret of the compose file once, in a folder for its owner alone, and never again", () => {
    expect(firstMade.status).toBe(0);
    expect(readdirSync(made).sort()).toEqual(Object.keys(readCompose().secrets).sort());
    expect(statSync(made).mode & 0o777).toBe(0o700);
    const before = readFileSync(join(made, "interlock.yaml"), "utf8");
    const again = make();
    expect([again.status, again.stderr.includes("already")]).toEqual([1, true]);
    expect(readFileSync(join(made, "interlock.yaml"), "utf8")).toBe(before);
  });

  test("leaves no placeholder in, and no two secrets are the same", () => {
    const values = readdirSync(made)
      .flatMap((name) => [...readFileSync(join(made, name), "utf8").matchAll(/[0-9a-f]{48}/g)])
      .map(([value]) => value);
    // Those of Redis, NATS and its routes stand in two places or more; the others in one.
    expect(new Set(values).size).toBe(10);
    const texts = readdirSync(made).map((name) => readFileSync(join(made, name), "utf8"));
    expect(texts.filter((text) => text.includes("_PASSWORD"))).toEqual([]);
  });
});

/** What the example of make-secrets.mjs would hold, by the names of settings. */
function secretSettings(): Record<string, unknown> {
  return {
    "store.redisUrls": "redis://interlock:secret@sentinel-1:26379",
    "store.redisUser": "interlock",
    "store.redisPassword": "secret",
    "bus.natsUser": "control-plane",
    "bus.natsPassword": "secret",
  };
}
