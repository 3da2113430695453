// Stores with one mistake each between a flow and its store: answers turned into what they do not say.
import type { Fence } from "../../../src/domain/lock.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { NewRun } from "../../../src/ports/admission-operations.ts";
import type { Store, Unknown } from "../../../src/ports/store.ts";

export function renewIgnoringRefusal(store: Store): Store {
  return {
    ...store,
    renewLock: async (request, options) => {
      const answer = await store.renewLock(request, options);
      if (answer.kind !== "not_owned") return answer;
      return { kind: "renewed", fence: 0 as Fence, storeTimeMs: answer.storeTimeMs };
    },
  };
}

export function unknownAsRefusal(store: Store): Store {
  const full = { kind: "max_concurrent_runs_reached", limit: 1, active: 1, storeTimeMs: 0 } as const;
  const busy = { kind: "busy", instance: "somebody", freeInMs: 1, storeTimeMs: 0 } as const;
  return {
    ...store,
    admit: async (request, options) => orElse(await store.admit(request, options), full),
    createRun: async (request, options) => orElse(await store.createRun(request, options), full),
    acquireLock: async (request, options) => orElse(await store.acquireLock(request, options), busy),
  };
}

export function unknownAsSuccess(store: Store): Store {
  return {
    ...store,
    admit: async (request, options) => {
      const { runId } = request.run;
      const made = { runId, status: "pending", active: 1, claims: [] } as const;
      const admitted = { kind: "admitted", ...made, storeTimeMs: 0 } as const;
      return orElse(await store.admit(request, options), admitted);
    },
  };
}

export function unknownEndAsUnavailable(store: Store): Store {
  return {
    ...store,
    commit: async (request, options) =>
      orElse(await store.commit(request, options), { kind: "unavailable", cause: "no answer" } as const),
  };
}

/** Waits for an answer that will not come. */
export function waitForEver(store: Store): Store {
  return {
    ...store,
    releaseLock: async (request, options) => {
      const answer = await store.releaseLock(request, options);
      return answer.kind === "unknown" ? new Promise(() => {}) : answer;
    },
  };
}

export function cleanupOnUnknown(store: Store): Store {
  const cleanUp = async (tenant: TenantId, run: NewRun, token: string) => {
    if (run.key === undefined) return;
    const request = { tenant, digest: run.key.digest, runId: run.runId, token };
    await store.cancelReservation(request as Parameters<Store["cancelReservation"]>[0], { deadlineMs: 200 });
  };
  return {
    ...store,
    admit: async (request, options) => {
      const answer = await store.admit(request, options);
      if (answer.kind === "unknown") await cleanUp(request.tenant, request.run, "nobody");
      return answer;
    },
    createRun: async (request, options) => {
      const answer = await store.createRun(request, options);
      if (answer.kind === "unknown") await cleanUp(request.tenant, request.run, request.guard.token);
      return answer;
    },
  };
}

export function countBeforeAdmit(store: Store): Store {
  return {
    ...store,
    admit: async (request, options) => {
      const counted = await store.countActive({ tenant: request.tenant }, options);
      if (counted.kind !== "counted") return counted;
      const { active, limit, storeTimeMs } = counted;
      if (limit !== undefined && active >= limit)
        return { kind: "max_concurrent_runs_reached", limit, active, storeTimeMs };
      return store.admit(request, options);
    },
  };
}

export function unknownAsDelivered(store: Store): Store {
  const handedOver = { kind: "handed_over" } as const;
  const delivered = { kind: "delivered", run: handedOver, storeTimeMs: 0 } as const;
  return {
    ...store,
    deliver: async (request, options) => orElse(await store.deliver(request, options), delivered),
  };
}

/** Only the bus tells of jobs. */
export function jobsByHintsAlone(store: Store): Store {
  return {
    ...store,
    listReadyJobs: async (request, options) => {
      const answer = await store.listReadyJobs(request, options);
      return answer.kind === "listed" ? { ...answer, jobs: [] } : answer;
    },
    sweep: async (request, options) => {
      const answer = await store.sweep(request, options);
      return answer.kind === "swept" ? { ...answer, unclaimed: [] } : answer;
    },
  };
}

/** Claims that a call without an answer can have no effect any more. */
export function forgetLateTries(store: Store): Store {
  const forget = <Answer extends { readonly kind: string }>(answer: Answer): Answer =>
    answer.kind === "unknown" ? { ...answer, notAfterMs: 0 } : answer;
  return {
    ...store,
    admit: async (request, options) => forget(await store.admit(request, options)),
    createRun: async (request, options) => forget(await store.createRun(request, options)),
  };
}

function orElse<Answer extends { readonly kind: string }, Refusal>(
  answer: Answer | Unknown,
  refusal: Refusal,
): Exclude<Answer, Unknown> | Refusal {
  return answer.kind === "unknown" ? refusal : (answer as Exclude<Answer, Unknown>);
}
