// Child program: waits for "go", starts many runs of one tenant at once on Redis, and prints how each was answered.
import { once } from "node:events";
import { bareStart } from "../../proof/simulation/bare-run.ts";
import { createControlPlane, errors, parseTenantId } from "../../src/index.ts";

type Options = {
  readonly url: string;
  readonly tenant: string;
  readonly starts: number;
  readonly strategy: "atomic" | "lock";
  readonly wait: "fixed" | "jitter";
};

const { url, tenant: name, starts, strategy, wait } = JSON.parse(process.argv[2] as string) as Options;
const tenant = parseTenantId(name);
if (tenant === undefined) throw new Error(`${name} is not a tenant id`);
const plane = await createControlPlane({
  overrides: {
    "store.kind": "redis",
    "store.redisUrls": url,
    "admission.strategy": strategy,
    "admission.wait": wait,
    // Long enough for every contender to have its turn on a slow machine: what is counted is who gets in, not who waits.
    "locks.admission.waitMs": 20_000,
    "locks.admission.ttlMs": 30_000,
  },
});
console.log(JSON.stringify({ ready: true }));
await once(process.stdin, "data");
const request = { ...bareStart, tenant, actor: "contender" };
const answers = await Promise.all(Array.from({ length: starts }, () => plane.startRun(request)));
const statuses = answers.map(({ kind }) =>
  kind === "admitted" || kind === "replayed" ? 200 : kind === "queued" ? 202 : errors[kind].status,
);
const runIds = answers.flatMap((answer) => (answer.kind === "admitted" ? [answer.runId] : []));
console.log(JSON.stringify({ statuses, runIds }));
await plane.close();
process.exit(0);
