// Which locks are held now: the public ones of a tenant, or every lock of one tenant or of all.
import { platformTenant, type TenantId } from "../../domain/tenant.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../control-api.ts";
import type { LockApi, LockPage, TenantLock } from "./lock-api.ts";
import type { LockDesk } from "./lock-desk.ts";

type Answer<Name extends "listLocks" | "listAllLocks"> = Awaited<ReturnType<LockApi[Name]>>;

const publicPrefix = "public/";

/** The store lists by `<namespace>/<name>`, so the public ones stand together. */
export async function listPublicLocks(
  desk: LockDesk,
  tenant: TenantId,
  { after, limit }: LockPage,
): Promise<Answer<"listLocks">> {
  const answer = await listOf(desk, tenant, { after: publicPrefix + after, limit });
  if (answer.kind !== "listed") return answer;
  const locks = answer.locks.flatMap(({ lock, ...held }) =>
    lock.namespace === "public" ? [{ ...held, resource: lock.name }] : [],
  );
  const isAll = answer.next === undefined || !answer.next.startsWith(publicPrefix);
  return { kind: "listed", locks, ...(isAll ? {} : { next: answer.next.slice(publicPrefix.length) }) };
}

/** Most tenants hold no lock: a page ends after this many, so that no request asks for ever. */
const tenantsPerPage = 200;

/**
 * A place is the tenant and, after a space, the last lock seen of it. Without a tenant all are walked, the platform's own
 * first.
 */
export async function listAllLocks(
  desk: LockDesk,
  tenant: TenantId | undefined,
  { after, limit }: LockPage,
): Promise<Answer<"listAllLocks">> {
  if (tenant !== undefined) return listOf(desk, tenant, { after, limit });
  const [reached = "", seen = ""] = splitOnce(after);
  const locks: TenantLock[] = [];
  const visits = await tenantsFrom(desk, reached as TenantId);
  if (visits.kind !== "tenants") return visits;
  for (const visited of visits.tenants) {
    const place = { after: visited === reached ? seen : "", limit: limit - locks.length };
    const answer = await listOf(desk, visited, place);
    if (answer.kind !== "listed") return answer;
    locks.push(...answer.locks);
    if (answer.next !== undefined) return { kind: "listed", locks, next: `${visited} ${answer.next}` };
    if (locks.length >= limit) return { kind: "listed", locks, next: `${visited} ${lastPlace}` };
  }
  const last = visits.tenants.at(-1);
  const isAll = visits.tenants.length < tenantsPerPage || last === undefined;
  return { kind: "listed", locks, ...(isAll ? {} : { next: `${last} ${lastPlace}` }) };
}

/** After every name that a lock can have. */
const lastPlace = "\u{10ffff}";

function splitOnce(place: string): readonly string[] {
  const index = place.indexOf(" ");
  return index < 0 ? [] : [place.slice(0, index), place.slice(index + 1)];
}

/** This tenant, if there is one, and those after it. */
async function tenantsFrom(
  { engine }: LockDesk,
  reached: TenantId | "",
): Promise<{ readonly kind: "tenants"; readonly tenants: readonly TenantId[] } | Trouble> {
  const isFirst = reached === "" || reached === platformTenant;
  const request = {
    tenant: platformTenant,
    collection: "tenant",
    after: isFirst ? "" : reached,
    limit: tenantsPerPage - 1,
  } as const;
  const answer = await ask(engine, "listDocuments", request);
  if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
  const following = answer.documents.map(({ id }) => id as TenantId);
  return { kind: "tenants", tenants: [isFirst ? platformTenant : reached, ...following] };
}

async function listOf(
  { engine }: LockDesk,
  tenant: TenantId,
  page: LockPage,
): Promise<Answer<"listAllLocks">> {
  const answer = await ask(engine, "listLocks", { tenant, ...page });
  if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
  const locks = answer.locks.map((held) => ({ ...held, tenant }));
  return { kind: "listed", locks, ...(answer.next === undefined ? {} : { next: answer.next }) };
}
