// What the flood benchmark loads: a gateway on an embedded store with a tenant that works and others that flood it.
import { createSystemLog } from "../src/adapters/system/system-log.ts";
import { type ControlPlane, createControlPlane } from "../src/control-plane.ts";
import type { TenantId } from "../src/domain/tenant.ts";
import { createGateway } from "../src/gateway/server.ts";
import { costlyWorkflows, type Flood } from "./flood-requests.ts";
import { benchFolder } from "./program.ts";
import { oneStep } from "./runs-target.ts";

export type FloodTarget = {
  readonly port: number;
  readonly ownKey: string;
  readonly floodKeys: Readonly<Record<Flood, string>>;
  close(): Promise<void>;
};

const log = createSystemLog("error");

export async function openFloodTarget(): Promise<FloodTarget> {
  const plane = await createControlPlane({
    overrides: {
      "gateway.lingerMs": 0,
      "store.kind": "sqlite",
      "store.dataDirectory": benchFolder("flood"),
    },
    ports: { log },
  });
  const gateway = createGateway({ ...plane, metricsText: () => "" });
  const { url } = await gateway.listen({ host: "127.0.0.1", port: 0 });
  const ownKey = await makeTenant(plane, "worker-tenant");
  const costlyKey = await makeTenant(plane, "costly-tenant", 5);
  return {
    port: Number(new URL(url).port),
    ownKey,
    floodKeys: {
      over_limit: await makeTenant(plane, "limited-tenant", 5),
      admitted: await makeTenant(plane, "free-tenant"),
      without_key: `${ownKey.slice(0, -8)}00000000`,
      costly_validate: costlyKey,
      costly_start: costlyKey,
      costly_dry_run: costlyKey,
    },
    async close() {
      await gateway.close();
      await plane.close();
    },
  };
}

async function makeTenant(plane: ControlPlane, name: string, maxConcurrentRuns?: number): Promise<string> {
  const tenant = name as TenantId;
  await plane.api.createTenant({
    actor: "bench",
    tenant,
    settings: maxConcurrentRuns === undefined ? {} : { maxConcurrentRuns },
  });
  for (const definition of [oneStep, ...Object.values(costlyWorkflows)]) {
    const saved = await plane.api.saveWorkflow({ caller: { tenant, actor: "bench" }, definition });
    if (saved.kind !== "saved") throw new Error(`the workflow was not saved: ${JSON.stringify(saved)}`);
  }
  const made = await plane.api.createKey({ by: "bench", tenant, role: "operator", name });
  if (made.kind !== "created") throw new Error(`no key: ${made.kind}`);
  return made.text;
}
