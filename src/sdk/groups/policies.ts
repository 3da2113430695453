// Policies and canaries: how runs are handled, for all of them or for a share. With a platform key.
import type { Caller } from "../caller.ts";
import type { Body, Common, Success } from "../contract.ts";

type Scope = { readonly tenant?: string };

export type PolicyGroup = {
  /** Without a tenant: the platform's own. */
  get(scope?: Scope, options?: Common): Promise<Success<"getPolicies">>;
  set(changes: Body<"setPolicies">, options?: Common): Promise<Success<"setPolicies">>;
  /** All runs follow again what is set for all. */
  rollBack(scope?: Scope, options?: Common): Promise<Success<"removeRollout">>;
};

export function policiesOf(caller: Caller): PolicyGroup {
  return {
    get: (query = {}, options) => caller.call("getPolicies", { query, ...options }),
    set: (body, options) => caller.call("setPolicies", { body, ...options }),
    rollBack: (query = {}, options) => caller.call("removeRollout", { query, ...options }),
  };
}

export type Canaries = {
  list(options?: Common): Promise<Success<"listCanaries">["items"]>;
  start(canary: Body<"startCanary">, options?: Common): Promise<Success<"startCanary">>;
  get(id: string, options?: Common): Promise<Success<"getCanary">>;
  rollBack(id: string, body?: Body<"rollBackCanary">, options?: Common): Promise<Success<"rollBackCanary">>;
  keep(id: string, body?: Body<"keepCanary">, options?: Common): Promise<Success<"keepCanary">>;
};

export function canariesOf(caller: Caller): Canaries {
  return {
    list: async (options) => (await caller.call("listCanaries", options)).items,
    start: (body, options) => caller.call("startCanary", { body, ...options }),
    get: (id, options) => caller.call("getCanary", { params: { id }, ...options }),
    rollBack: (id, body = {}, options) => caller.call("rollBackCanary", { params: { id }, body, ...options }),
    keep: (id, body = {}, options) => caller.call("keepCanary", { params: { id }, body, ...options }),
  };
}
