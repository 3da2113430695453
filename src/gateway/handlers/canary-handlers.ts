// Canaries over HTTP, for platform keys.
import { type CanaryGuard, readGuard } from "../../domain/canary-guard.ts";
import { canaryStatusView, canaryView } from "../canary-views.ts";
import type { Failure, Handlers } from "../handler.ts";
import { pageReply } from "../page.ts";
import { scopeOf } from "./policy-handlers.ts";

type CanaryHandlers = Pick<
  Handlers,
  "listCanaries" | "startCanary" | "getCanary" | "rollBackCanary" | "keepCanary"
>;

export const canaryHandlers: CanaryHandlers = {
  async listCanaries({ api }, { key: { tenant } }) {
    const answer = await api.listCanaries();
    if (answer.kind !== "listed") return answer;
    return pageReply({ operation: "listCanaries", tenant }, answer.canaries.map(canaryView), undefined);
  },

  async startCanary({ api }, { body, key }) {
    const scope = scopeOf(body.tenant);
    if (scope.kind === "unknown_tenant") return { kind: "tenant_not_found" };
    const guards = guardsOf(body.guards);
    if (guards.kind === "invalid") return guards.failure;
    if (body.for_seconds < body.windows_in_a_row * body.window_seconds) {
      const detail = "for_seconds: it must be as long as windows_in_a_row windows of window_seconds";
      return { kind: "invalid_request", detail };
    }
    const answer = await api.startCanary({
      actor: key.keyId,
      ...(scope.tenant === undefined ? {} : { tenant: scope.tenant }),
      policies: body.policies,
      percent: body.percent,
      forMs: Math.round(body.for_seconds * 1_000),
      windowMs: Math.round(body.window_seconds * 1_000),
      guards: guards.guards,
      samplesMin: body.samples_min,
      windowsInARow: body.windows_in_a_row,
    });
    if (answer.kind !== "canary") return answer;
    return { status: 201, body: canaryStatusView(answer.status) };
  },

  async getCanary({ api }, { params }) {
    if (!isId(params.id)) return { kind: "canary_not_found" };
    const answer = await api.getCanary({ id: params.id });
    return answer.kind === "canary" ? { status: 200, body: canaryStatusView(answer.status) } : answer;
  },

  async rollBackCanary({ api }, { params, body, key }) {
    if (!isId(params.id)) return { kind: "canary_not_found" };
    const answer = await api.rollBackCanary({ actor: key.keyId, id: params.id, reason: body.reason });
    return answer.kind === "canary" ? { status: 200, body: canaryStatusView(answer.status) } : answer;
  },

  async keepCanary({ api }, { params, body, key }) {
    if (!isId(params.id)) return { kind: "canary_not_found" };
    const answer = await api.keepCanary({ actor: key.keyId, id: params.id, reason: body.reason });
    return answer.kind === "canary" ? { status: 200, body: canaryStatusView(answer.status) } : answer;
  },
};

/** Others are none of ours: the store is not asked about them. */
function isId(text: string): boolean {
  return /^canary-[A-Za-z0-9-]{1,64}$/.test(text);
}

function guardsOf(
  texts: readonly string[],
):
  | { readonly kind: "guards"; readonly guards: readonly CanaryGuard[] }
  | { readonly kind: "invalid"; readonly failure: Failure<"invalid_request"> } {
  const guards: CanaryGuard[] = [];
  for (const [index, text] of texts.entries()) {
    const read = readGuard(text);
    if (read.kind === "invalid") {
      const detail = `guards.${index}: at character ${read.at}: ${read.problem}`;
      return { kind: "invalid", failure: { kind: "invalid_request", detail } };
    }
    guards.push(read.guard);
  }
  return { kind: "guards", guards };
}
