// The checks' own picture of tenants and runs, kept from the changes they saw: what every answer and change is held against.
import type { ParentStep, RunId, RunStatus } from "../../../src/domain/run.ts";
import type { TenantId, TenantSettings } from "../../../src/domain/tenant.ts";
import type { KeyRequest } from "../../../src/ports/admission-operations.ts";
import type { OperationName, RequestOf } from "../../../src/ports/store.ts";

/** A run as the checks remember it from its creation on. */
export type KnownRun = {
  readonly runId: RunId;
  readonly tenant: TenantId;
  readonly actor: string;
  readonly workflow: string;
  readonly key: KeyRequest | undefined;
  /** For a run that a step of another has started. */
  readonly parent: ParentStep | undefined;
  readonly admittedAtMs: number;
  status: RunStatus;
  version: number;
  /** The commit that ended it. */
  endedBy: string | undefined;
  endedAtMs: number | undefined;
  cancelRequested: string | undefined;
  /** Owners since the last commit. */
  takes: number;
  /** Retention or a deleter removed it after its end. */
  removed: boolean;
  /** An entry of it was set aside. */
  poisoned: boolean;
  /** A step of it was given up after too many silent workers, whatever became of the dead letter that said so. */
  claimsLost: boolean;
  /** A job of it was granted although a budget could not pay for it, and its step failed. */
  unpaid: boolean;
  /** A dead letter of it was retried. */
  retried: boolean;
};

type KnownTenant = {
  settings: TenantSettings;
  version: number;
  /** Runs that are not terminal and wait for no place; those that others have started share the slot of their root. */
  readonly unfinished: Set<RunId>;
  /** Runs that have a slot. */
  readonly active: Set<RunId>;
  readonly boundKeys: Map<string, BoundKey>;
  lastEvent: number;
  lastRecord: number;
  /** Slots of runs that do not exist, as after a failover that lost them: the sweep must find each. */
  readonly phantoms: Set<string>;
};

/** Which run a key stands for, and until when once the run has ended. */
type BoundKey = { readonly runId: RunId; readonly expiresAtMs: number | undefined };

export class KnownState {
  readonly #tenants = new Map<TenantId, KnownTenant>();
  readonly #runs = new Map<RunId, KnownRun>();
  readonly #runByActor = new Map<string, KnownRun>();
  readonly #children = new Map<RunId, KnownRun[]>();

  /** To be learnt again from the start. */
  startOver(): void {
    for (const map of [this.#tenants, this.#runs, this.#runByActor, this.#children]) map.clear();
  }

  tenant(tenant: TenantId): KnownTenant {
    let known = this.#tenants.get(tenant);
    if (known === undefined) {
      const boundKeys = new Map<string, BoundKey>();
      const sets = { unfinished: new Set<RunId>(), active: new Set<RunId>(), phantoms: new Set<string>() };
      known = { settings: {}, version: 0, ...sets, boundKeys, lastEvent: 0, lastRecord: 0 };
      this.#tenants.set(tenant, known);
    }
    return known;
  }

  add(run: KnownRun): void {
    this.#runs.set(run.runId, run);
    this.#runByActor.set(run.actor, run);
    if (run.parent === undefined && run.status !== "queued")
      this.tenant(run.tenant).unfinished.add(run.runId);
    else if (run.parent !== undefined)
      this.#children.set(run.parent.runId, [...this.childrenOf(run.parent.runId), run]);
  }

  /** The runs that steps of this one have started. */
  childrenOf(runId: RunId): readonly KnownRun[] {
    return this.#children.get(runId) ?? [];
  }

  run(runId: string): KnownRun | undefined {
    return this.#runs.get(runId as RunId);
  }

  runs(): Iterable<KnownRun> {
    return this.#runs.values();
  }

  runOfActor(actor: string): KnownRun | undefined {
    return this.#runByActor.get(actor);
  }

  /** The run that the key stands for at this time of the store. */
  runOfKey(tenant: TenantId, digest: string, storeTimeMs: number): KnownRun | undefined {
    const bound = this.tenant(tenant).boundKeys.get(digest);
    if (bound === undefined || storeTimeMs > (bound.expiresAtMs ?? Number.POSITIVE_INFINITY))
      return undefined;
    return this.#runs.get(bound.runId);
  }
}

/** The tenant that a request names; the sweep names none. */
export function tenantOf(request: RequestOf<OperationName>): TenantId | undefined {
  return "tenant" in request ? request.tenant : undefined;
}
