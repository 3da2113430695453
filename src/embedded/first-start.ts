// The first start: a platform key, and the tenant `default` with a key for its admin and one for its workers.
import type { ControlApi, Trouble } from "../control/control-api.ts";
import type { KeyRole } from "../domain/api-key.ts";
import { platformTenant, type TenantId } from "../domain/tenant.ts";
import { InterlockError } from "../errors.ts";
import { type Keys, readKeys, writeKeys } from "./data-folder.ts";

export const defaultTenant = "default" as TenantId;

export type KeysFound =
  /** Made by this start: to be shown once. */
  | { readonly kind: "made"; readonly keys: Keys }
  | { readonly kind: "known"; readonly keys: Keys }
  /** Keys were made before, and there is no file that holds them: their owners keep using them. */
  | { readonly kind: "elsewhere" }
  /** The file's keys are not this data's, or were revoked. */
  | { readonly kind: "refused" };

export type KeysOptions = {
  /** The data's folder; without one keys are shown and kept nowhere. */
  readonly directory?: string;
  /** `renew` makes further keys. Write access to the data is enough; no older key is needed. */
  readonly keys: "keep" | "renew";
};

export async function findKeys(api: ControlApi, options: KeysOptions): Promise<KeysFound> {
  const { directory, keys } = options;
  if (keys === "renew") return makeKeys(api, directory);
  if (await isFirstStart(api)) {
    const made = await oneAtATime(api, async () =>
      (await isFirstStart(api)) ? makeKeys(api, directory) : undefined,
    );
    if (made !== undefined) return made;
  }
  if (directory === undefined) return { kind: "elsewhere" };
  const known = readKeys(directory);
  if (known === undefined) return { kind: "elsewhere" };
  for (const text of [known.platform, known.admin]) {
    const answer = await api.authenticate(text);
    if (answer.kind === "refused") return { kind: "refused" };
    if (answer.kind !== "authenticated") throw failed(answer);
  }
  return { kind: "known", keys: known };
}

async function isFirstStart(api: ControlApi): Promise<boolean> {
  const tenant = await api.getTenant(defaultTenant);
  if (tenant.kind === "unknown" || tenant.kind === "unavailable") throw failed(tenant);
  return tenant.kind === "not_found";
}

const firstStart = { resource: "first-start", ttlMs: 30_000 };

/** Processes that start together on one store make the keys once: the others wait for the one that does. */
async function oneAtATime<Value>(api: ControlApi, work: () => Promise<Value>): Promise<Value> {
  const caller = { tenant: platformTenant, actor };
  const lock = await api.acquireLock({ ...firstStart, caller, waitMs: firstStart.ttlMs, wait: "queue" });
  if (lock.kind !== "acquired") throw failed({ cause: `the lock of the first start: ${lock.kind}` });
  try {
    return await work();
  } finally {
    await api.releaseLock(platformTenant, { resource: firstStart.resource, token: lock.token });
  }
}

/** The tenant comes last: until it is there every start is a first one, so that no crash leaves data without keys. */
async function makeKeys(api: ControlApi, directory: string | undefined): Promise<KeysFound> {
  const keys: Keys = {
    platform: await makeKey(api, platformTenant, "platform"),
    admin: await makeKey(api, defaultTenant, "admin"),
    worker: await makeKey(api, defaultTenant, "worker"),
  };
  if (directory !== undefined) writeKeys(directory, keys);
  const made = await api.createTenant(actor, defaultTenant, {});
  if (made.kind === "unknown" || made.kind === "unavailable") throw failed(made);
  return { kind: "made", keys };
}

const actor = "first-start";

async function makeKey(api: ControlApi, tenant: TenantId, role: KeyRole): Promise<string> {
  const create = () => api.createKey(actor, tenant, { role, name: `${role} key of the server's start` });
  let answer = await create();
  // Removed since the last start: this is the first start of another tenant of its name.
  if (answer.kind === "tenant_removed") {
    await api.createTenant(actor, tenant, {});
    answer = await create();
  }
  if (answer.kind !== "created") throw failed({ cause: answer.kind, ...answer });
  return answer.text;
}

function failed({ cause }: Pick<Trouble, "cause">): InterlockError {
  return new InterlockError("store_unavailable", `the server's keys could not be looked up: ${cause}`);
}
