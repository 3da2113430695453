// What the server tells about itself, and which run an idempotency key maps to.
import { openApiText } from "../../api/openapi.ts";
import type { LivingProcesses } from "../../control/processes.ts";
import { isPlatformKey } from "../../domain/api-key.ts";
import type { Handlers } from "../handler.ts";

type ServerHandlers = Pick<Handlers, "lookUpKey" | "getStatus" | "openApi" | "live" | "ready" | "metrics">;

export const serverHandlers: ServerHandlers = {
  async lookUpKey({ api }, { params, key }) {
    const answer = await api.lookUpKey({ tenant: key.tenant, key: params.key });
    if (answer.kind !== "bound" && answer.kind !== "pending") return answer;
    const { kind: state, runId: run_id } = answer;
    const finalStatus = answer.kind === "bound" ? answer.finalStatus : undefined;
    return {
      status: 200,
      body: { state, run_id, ...(finalStatus === undefined ? {} : { final_status: finalStatus }) },
    };
  },

  async getStatus({ api, ports, config, version }, { key }) {
    const ready = await api.ready();
    const isReady = ready.kind === "ready";
    const living = isPlatformKey(key) ? await api.livingProcesses({ version }) : undefined;
    const found = isReady && !isPlatformKey(key) ? await api.getTenant({ tenant: key.tenant }) : undefined;
    const used = found?.kind === "tenant" ? found.used?.idempotency_keys : undefined;
    const aheadMs = api.storeAheadMs();
    return {
      status: 200,
      body: {
        ...(isReady
          ? { status: "ready" as const }
          : { status: "unavailable" as const, detail: ready.detail }),
        ...(aheadMs === undefined ? {} : { store_ahead_ms: Math.round(aheadMs) }),
        version,
        instance: ports.instance,
        tenant: key.tenant,
        role: key.role,
        key_id: key.keyId,
        ...(used === undefined
          ? {}
          : { idempotency_keys: { limit: config["admission.keysPerTenantMax"], used } }),
        ...(living?.kind === "processes" ? processesOf(living) : {}),
      },
    };
  },

  openApi: () => ({
    status: 200,
    body: null,
    rendered: { mediaType: "application/json", text: openApiText() },
  }),

  live: () => ({ status: 200, body: { status: "live" } }),

  async ready({ api, isDraining }) {
    if (isDraining()) return { kind: "draining" };
    const ready = await api.ready();
    return ready.kind === "ready" ? { status: 200, body: { status: "ready" } } : ready;
  },

  async metrics(service) {
    const text = await service.metricsText();
    const mediaType = "text/plain; version=0.0.4; charset=utf-8";
    return { status: 200, body: text, rendered: { mediaType, text } };
  },
};

function processesOf({ processes, findings }: LivingProcesses) {
  return {
    processes: processes.map(({ instance, version, roles, seenMsAgo }) => ({
      instance,
      version,
      roles: [...roles],
      seen_ms_ago: seenMsAgo,
    })),
    findings: [...findings],
  };
}
