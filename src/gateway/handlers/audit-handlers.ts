// The audit trail over HTTP: its records page by page, and its verification.
import type { TrailVerdict } from "../../control/audit/verify-trail.ts";
import { type ApiKeyRecord, isPlatformKey, personOf, tenantOfKey } from "../../domain/api-key.ts";
import type { Head } from "../../domain/audit.ts";
import { formatTime } from "../../domain/engine/rfc3339.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Handlers } from "../handler.ts";
import { pageReply, readPage } from "../page.ts";

type AuditHandlers = Pick<Handlers, "readAudit" | "verifyAudit">;

export const auditHandlers: AuditHandlers = {
  async readAudit({ api }, { query, key }) {
    const tenant = auditedTenant(key, query.tenant);
    const list = { operation: "readAudit", tenant } as const;
    const page = readPage(list, query);
    if (page.kind === "bad_cursor") return page.failure;
    if (page.after !== undefined && query.after !== undefined)
      return { kind: "invalid_request", detail: "after: only without a cursor, which is a place already" };
    const answer = await api.readTrail({
      tenant,
      after: Number(page.after ?? query.after ?? 0),
      limit: page.limit,
      ...(query.type === undefined ? {} : { type: query.type }),
      ...(query.actor === undefined ? {} : { actor: query.actor }),
    });
    if (answer.kind !== "records") return answer;
    const actors = answer.records.map(({ row }) => row.actor);
    // The keys of the platform are nobody else's business.
    const shown = isPlatformKey(key) ? actors : actors.filter((actor) => tenantOfKey(actor) === tenant);
    const keys = await api.describeKeys({ keyIds: shown });
    const items = answer.records.map(({ row, hash }) => {
      const { sequence, atMs, type, subject, actor, detail } = row;
      const record = {
        sequence,
        at: formatTime(atMs),
        type,
        subject,
        actor,
        ...nameOf(keys.get(actor)),
        detail,
      };
      return hash === undefined ? record : { ...record, hash };
    });
    const next = answer.next === undefined ? undefined : String(answer.next);
    const { status, body } = pageReply(list, items, next);
    return { status, body: { ...body, first: answer.first, last: answer.last } };
  },

  async verifyAudit({ api }, { query, key }) {
    const tenant = auditedTenant(key, query.tenant);
    const answer = await api.verifyTrail({ tenant, expect: headIn(query.expect) });
    // Sealing first changes nothing that could be asked about twice: an outcome that is unknown is no answer, and no more.
    if (answer.kind !== "verified") return answer;
    return { status: 200, body: verdictView(tenant, answer) };
  },
};

/** Only a platform key may choose; another key's tenant was already compared with what the request names. */
function auditedTenant(key: ApiKeyRecord, named: string | undefined): TenantId {
  return isPlatformKey(key) && named !== undefined ? (named as TenantId) : key.tenant;
}

function nameOf(key: ApiKeyRecord | undefined) {
  return key === undefined ? {} : { actor_name: personOf(key).owner, actor_role: key.role as string };
}

function headIn(text: string | undefined): Head | undefined {
  const [sequence, hash] = text?.split(":") ?? [];
  return hash === undefined ? undefined : { sequence: Number(sequence), hash };
}

function verdictView(tenant: TenantId, verdict: TrailVerdict) {
  const { status, compared, gaps, firstBroken, sealedTo, head, keptFrom, expected, anchored } = verdict;
  return {
    status,
    tenant: tenant as string,
    total_events: compared,
    gaps: gaps.map(({ from, to, why }) => ({ from, to, why })),
    ...(firstBroken === undefined ? {} : { first_broken: firstBroken }),
    sealed_to: sealedTo,
    head: head === undefined ? null : `${head.sequence}:${head.hash}`,
    kept_from: keptFrom,
    ...(expected === undefined ? {} : { expected }),
    ...(anchored === undefined ? {} : { anchored }),
    not_ruled_out: [...verdict.notRuledOut],
  };
}
