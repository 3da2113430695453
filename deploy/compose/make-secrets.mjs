// Makes the secrets of compose.yaml, once: node deploy/compose/make-secrets.mjs [folder]
// The folder is for its owner alone; the files in it can be read by the users inside the containers, who are others.
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const here = import.meta.dirname;
const folder = resolve(process.argv[2] ?? join(here, "secrets"));

/** 192 random bits in letters and digits: no file format has to quote them. */
const secret = () => randomBytes(24).toString("hex");

const passwords = {
  REDIS_PASSWORD: secret(),
  REPLICATION_PASSWORD: secret(),
  SENTINEL_PASSWORD: secret(),
  NATS_PASSWORD: secret(),
  ASKING_PASSWORD: secret(),
  PEER_PASSWORD: secret(),
  HEALTH_PASSWORD: secret(),
};
const routePassword = secret();

function filledIn(template) {
  const text = readFileSync(join(here, template), "utf8").trimEnd();
  return text.replaceAll(/[A-Z]+_PASSWORD/g, (name) => passwords[name]);
}

const routes = ["nats-1", "nats-2", "nats-3"].map((host) => `nats://route:${routePassword}@${host}:6222`);

const sentinels = ["sentinel-1", "sentinel-2", "sentinel-3"].map(
  (host) => `redis://interlock:${passwords.ASKING_PASSWORD}@${host}:26379`,
);

const files = {
  "interlock.yaml": [
    "# Settings of every Interlock process that nobody else may read.",
    `store.redisUrls: ${JSON.stringify(sentinels.join(","))}`,
    "store.redisUser: interlock",
    `store.redisPassword: ${JSON.stringify(passwords.REDIS_PASSWORD)}`,
    "bus.natsUser: control-plane",
    `bus.natsPassword: ${JSON.stringify(passwords.NATS_PASSWORD)}`,
    `bus.signingKeys: ${JSON.stringify(secret())}`,
  ],
  "redis-users.acl": [filledIn("redis-users.acl.template")],
  "redis-replication.conf": ["masteruser copier", `masterauth ${passwords.REPLICATION_PASSWORD}`],
  "sentinel-auth.conf": [
    "sentinel auth-user interlock sentinel",
    `sentinel auth-pass interlock ${passwords.SENTINEL_PASSWORD}`,
    "sentinel sentinel-user peer",
    `sentinel sentinel-pass ${passwords.PEER_PASSWORD}`,
  ],
  "sentinel-users.acl": [filledIn("sentinel-users.acl.template")],
  "health-password": [passwords.HEALTH_PASSWORD],
  "nats-users.conf": [filledIn("nats-users.conf.template")],
  "nats-routes.conf": [
    `authorization { user: route, password: ${JSON.stringify(routePassword)} }`,
    `routes: [${routes.map((route) => JSON.stringify(route)).join(", ")}]`,
  ],
  // Made with the platform key that the first gateway prints: interlock keys create prometheus --role metrics. Until then Prometheus is refused.
  "metrics-key": ["replace-me-with-a-key-of-role-metrics"],
  "grafana-password": [secret()],
};

if (existsSync(join(folder, "interlock.yaml"))) {
  console.error(`${folder} holds secrets already; remove it if nothing depends on them any more`);
  process.exitCode = 1;
} else {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const [name, lines] of Object.entries(files)) {
    writeFileSync(join(folder, name), `${lines.join("\n")}\n`, { mode: 0o444 });
  }
  console.log(`wrote ${Object.keys(files).length} files to ${folder}`);
}
