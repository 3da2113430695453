// Canaries over HTTP, for platform keys.
import type { EndCanaryAnswer } from "../../control/canaries/canary-api.ts";
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
    const answer = await api.startCanary(key.keyId, {
      ...(scope.tenant === undefined ? {} : { tenant: scope.tenant }),
      policies: body.policies,
      percent: body.percent,
      forMs: Math.round(body.for_seconds * 1_000),
      windowMs: Math.round(body.window_seconds * 1_000),
      guards: guards.guards,
      samplesMin: body.samples_min,
      windowsInARow: body.windows_in_a_row,
    });
    switch (answer.kind) {
      case "canary":
        return { status: 201, body: canaryStatusView(answer.status) };
      case "tenant_not_found":
        return answer;
      case "rollout_exists":
        return { ...answer, detail: answer.rollout };
      case "unavailable":
      case "unknown":
        return answer;
    }
  },

  async getCanary({ api }, { params }) {
    if (!isId(params.id)) return { kind: "canary_not_found" };
    const answer = await api.getCanary(params.id);
    if (answer.kind === "canary") return { status: 200, body: canaryStatusView(answer.status) };
    return answer.kind === "not_found" ? { kind: "canary_not_found" } : answer;
  },

  async rollBackCanary({ api }, { params, body, key }) {
    if (!isId(params.id)) return { kind: "canary_not_found" };
    return ended(await api.rollBackCanary(key.keyId, params.id, body.reason));
  },

  async keepCanary({ api }, { params, body, key }) {
    if (!isId(params.id)) return { kind: "canary_not_found" };
    return ended(await api.keepCanary(key.keyId, params.id, body.reason));
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

function ended(answer: EndCanaryAnswer) {
  switch (answer.kind) {
    case "canary":
      return { status: 200, body: canaryStatusView(answer.status) } as const;
    case "not_found":
      return { kind: "canary_not_found" } as const;
    case "already_ended": {
      const { state, reason = "" } = answer.status.canary;
      return { kind: "canary_ended", detail: `${state}: ${reason}`, state } as const;
    }
    case "unavailable":
    case "unknown":
      return answer;
  }
}
