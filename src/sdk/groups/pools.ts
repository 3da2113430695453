// Pools of workers and limits of topics.
import type { Caller } from "../caller.ts";
import type { Body, Common, Success } from "../contract.ts";

type Pool = Success<"getPool">;
type Topic = Success<"listTopics">["items"][number];

export type Pools = {
  list(options?: Common): Promise<Pool[]>;
  get(name: string, options?: Common): Promise<Pool>;
  /** A new name makes a new pool; what is absent is not limited. */
  set(name: string, limits: Body<"setPool">, options?: Common): Promise<Pool>;
  /** Null removes a limit; what is absent stays. */
  change(name: string, changes: Body<"changePool">, options?: Common): Promise<Pool>;
  remove(name: string, options?: Common): Promise<void>;
  /** No new jobs for its workers; what they run goes on. `drained` tells when nothing runs any more. */
  drain(name: string, options?: Common): Promise<Pool>;
  /** Jobs again. */
  undrain(name: string, options?: Common): Promise<Pool>;
  addTopic(name: string, topic: string, options?: Common): Promise<Pool>;
  removeTopic(name: string, topic: string, options?: Common): Promise<void>;
};

export function poolsOf(caller: Caller): Pools {
  return {
    list: async (options) => (await caller.call("listPools", options)).items,
    get: (id, options) => caller.call("getPool", { params: { id }, ...options }),
    set: (id, body, options) => caller.call("setPool", { params: { id }, body, ...options }),
    change: (id, body, options) => caller.call("changePool", { params: { id }, body, ...options }),
    async remove(id, options) {
      await caller.call("removePool", { params: { id }, ...options });
    },
    drain: (id, options) =>
      caller.call("drainPool", { params: { id }, body: { draining: true }, ...options }),
    undrain: (id, options) =>
      caller.call("drainPool", { params: { id }, body: { draining: false }, ...options }),
    addTopic: (id, topic, options) => caller.call("addPoolTopic", { params: { id, topic }, ...options }),
    async removeTopic(id, topic, options) {
      await caller.call("removePoolTopic", { params: { id, topic }, ...options });
    },
  };
}

export type Topics = {
  list(options?: Common): Promise<Topic[]>;
  /** How many of its jobs may run at once. */
  limit(name: string, limit: Body<"setTopic">, options?: Common): Promise<Topic>;
  removeLimit(name: string, options?: Common): Promise<void>;
};

export function topicsOf(caller: Caller): Topics {
  return {
    list: async (options) => (await caller.call("listTopics", options)).items,
    limit: (id, body, options) => caller.call("setTopic", { params: { id }, body, ...options }),
    async removeLimit(id, options) {
      await caller.call("removeTopic", { params: { id }, ...options });
    },
  };
}
