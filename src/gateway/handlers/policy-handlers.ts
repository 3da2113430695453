// Policies and canaries over HTTP, for platform keys.

import type { CanaryStatus } from "../../control/canaries/canaries.ts";
import type { PolicyLayer, PolicyView } from "../../control/policies/policies.ts";
import type { Canary } from "../../domain/canary.ts";
import {
  type ArmSamples,
  type CanaryGuard,
  type CanaryMetric,
  canaryMetricNames,
  guardText,
  measure,
  readGuard,
} from "../../domain/canary-guard.ts";
import { formatTime } from "../../domain/engine/rfc3339.ts";
import type { PolicyName } from "../../domain/policy.ts";
import { type Policies, parseTenantId, platformTenant, type TenantId } from "../../domain/tenant.ts";
import type { Failure, Handlers } from "../handler.ts";
import { pageReply } from "../http-reply.ts";

type PolicyHandlers = Pick<Handlers, "getPolicies" | "setPolicies" | "removeRollout">;

export const policyHandlers: PolicyHandlers = {
  async getPolicies({ api }, { query }) {
    const scope = scopeOf(query.tenant);
    if (scope.kind === "unknown_tenant") return { kind: "tenant_not_found" };
    const answer = await api.getPolicies({ tenant: scope.tenant });
    return answer.kind === "policies" ? { status: 200, body: policiesView(answer.view) } : answer;
  },

  async setPolicies({ api }, { body, key }) {
    const { policies, percent } = body;
    const scope = scopeOf(body.tenant);
    if (scope.kind === "unknown_tenant") return { kind: "tenant_not_found" };
    const cleared = Object.entries(policies).find(([, value]) => value === null);
    if (percent !== undefined && cleared !== undefined) {
      return {
        kind: "invalid_request",
        detail: `policies.${cleared[0]}: null clears a setting, and a rollout has none`,
      };
    }
    const values = Object.entries(policies).map(([name, value]) => [name, value ?? undefined]);
    const changes = Object.fromEntries(values) as { [Name in PolicyName]?: Policies[Name] };
    const answer =
      percent === undefined
        ? await api.setPolicies({ actor: key.keyId, tenant: scope.tenant, changes })
        : await api.rollOut({ actor: key.keyId, tenant: scope.tenant, policies: changes, percent });
    return answer.kind === "policies" ? { status: 200, body: policiesView(answer.view) } : answer;
  },

  async removeRollout({ api }, { query, key }) {
    const scope = scopeOf(query.tenant);
    if (scope.kind === "unknown_tenant") return { kind: "tenant_not_found" };
    const answer = await api.removeRollout({ actor: key.keyId, tenant: scope.tenant });
    return answer.kind === "policies" ? { status: 200, body: policiesView(answer.view) } : answer;
  },
};

type Scope =
  | { readonly kind: "scope"; readonly tenant: TenantId | undefined }
  | { readonly kind: "unknown_tenant" };

/** The platform is named by naming nobody. */
function scopeOf(text: string | undefined): Scope {
  if (text === undefined) return { kind: "scope", tenant: undefined };
  const tenant = parseTenantId(text);
  return tenant === undefined || tenant === platformTenant
    ? { kind: "unknown_tenant" }
    : { kind: "scope", tenant };
}

function policiesView({ tenant, effective, process, platform, own, warnings }: PolicyView) {
  return {
    ...(tenant === undefined ? {} : { tenant: tenant as string }),
    effective,
    process,
    platform: layerView(platform),
    ...(own === undefined ? {} : { own: layerView(own) }),
    ...(warnings.length === 0 ? {} : { warnings: [...warnings] }),
  };
}

function layerView({ policies, rollout }: PolicyLayer) {
  if (rollout === undefined) return { policies };
  const { canary, ...shown } = rollout;
  return { policies, rollout: { ...shown, canary: canary !== undefined } };
}

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

const windowsShown = 10;

function canaryView(canary: Canary) {
  const { id, tenant, policies, percent, state, reason, decidedBy, endedAtMs } = canary;
  return {
    id,
    ...(tenant === undefined ? {} : { tenant: tenant as string }),
    ...{ policies, percent, state },
    ...(reason === undefined ? {} : { reason }),
    started_by: canary.startedBy,
    ...(decidedBy === undefined ? {} : { decided_by: decidedBy }),
    started_at: formatTime(canary.startedAtMs),
    ends_at: formatTime(canary.endsAtMs),
    ...(endedAtMs === undefined ? {} : { ended_at: formatTime(endedAtMs) }),
    window_seconds: canary.windowMs / 1_000,
    samples_min: canary.samplesMin,
    windows_in_a_row: canary.windowsInARow,
    guards: canary.guards.map(guardText),
  };
}

function canaryStatusView({ canary, book, standings, missing, nowMs }: CanaryStatus) {
  const { startedAtMs, windowMs, endedAtMs = nowMs } = canary;
  const minutes = Math.max(1 / 60, (endedAtMs - startedAtMs) / 60_000);
  return {
    ...canaryView(canary),
    arms: {
      canary: armView(book.totals.canary, minutes),
      control: armView(book.totals.control, minutes),
    },
    standings: standings.map(({ guard, latest, brokenInARow }) => ({
      guard: guardText(guard),
      verdict: latest.verdict,
      canary: rounded(latest.canary),
      control: rounded(latest.control),
      broken_in_a_row: brokenInARow,
    })),
    windows: book.windows.slice(-windowsShown).map(({ window, arms }) => ({
      number: window,
      started_at: formatTime(startedAtMs + window * windowMs),
      canary: windowView(arms.canary),
      control: windowView(arms.control),
    })),
    missing: [...missing],
  };
}

function armView(samples: ArmSamples, minutes: number) {
  return {
    results: samples.results,
    busy_retries: samples.busyRetries,
    busy_retries_per_minute: rounded(samples.busyRetries / minutes) ?? 0,
    starts: samples.starts,
    starts_unavailable: samples.startsUnavailable,
    measures: measuresOf(samples),
  };
}

function windowView(samples: ArmSamples) {
  return { results: samples.results, starts: samples.starts, measures: measuresOf(samples) };
}

function measuresOf(samples: ArmSamples): Record<CanaryMetric, number | null> {
  const measured = canaryMetricNames.map((metric) => [metric, rounded(measure(metric, samples))]);
  return Object.fromEntries(measured) as Record<CanaryMetric, number | null>;
}

function rounded(value: number | undefined): number | null {
  return value === undefined ? null : Number(value.toPrecision(6));
}
