// Pools and topics over HTTP.
import { poolName } from "../../api/pool-schemas.ts";
import type {
  ChangePoolAnswer,
  PoolChanges,
  PoolInfo,
  RemovedAnswer,
  TopicInfo,
} from "../../control/pools/pool-api.ts";
import { callerOf, type Failure, type Handlers } from "../handler.ts";
import { pageReply } from "../page.ts";

type PoolHandlers = Pick<
  Handlers,
  | ("listPools" | "getPool" | "setPool" | "changePool" | "removePool" | "drainPool")
  | ("addPoolTopic" | "removePoolTopic" | "listTopics" | "setTopic" | "removeTopic")
>;

export const poolHandlers: PoolHandlers = {
  async listPools({ api }, { key: { tenant } }) {
    const answer = await api.listPools(tenant);
    if (answer.kind !== "listed") return answer;
    return pageReply({ operation: "listPools", tenant }, answer.pools.map(poolView), undefined);
  },

  async getPool({ api }, { params, key: { tenant } }) {
    if (!isName(params.id)) return { kind: "pool_not_found" };
    const answer = await api.getPool(tenant, params.id);
    if (answer.kind === "pool") return { status: 200, body: poolView(answer.pool) };
    return answer.kind === "not_found" ? { kind: "pool_not_found" } : answer;
  },

  async setPool({ api }, { params, body, key }) {
    if (!isName(params.id)) return badName("the pool's name");
    const { max_running, topics } = body;
    const limits = {
      ...(max_running === undefined ? {} : { maxRunning: max_running }),
      ...(topics === undefined ? {} : { topics }),
    };
    const answer = await api.setPool(callerOf(key), params.id, limits);
    return answer.kind === "not_found" ? { kind: "effect_unknown" } : changedPool(answer);
  },

  async changePool({ api }, { params, body, key }) {
    if (!isName(params.id)) return { kind: "pool_not_found" };
    const { max_running, topics, draining } = body;
    const changes: PoolChanges = {
      ...(max_running === undefined ? {} : { maxRunning: max_running ?? undefined }),
      ...(topics === undefined ? {} : { topics: topics ?? undefined }),
      ...(draining === undefined ? {} : { draining: draining ? true : undefined }),
    };
    const answer = await api.changePool(callerOf(key), params.id, changes);
    return answer.kind === "not_found" ? { kind: "pool_not_found" } : changedPool(answer);
  },

  async removePool({ api }, { params, key }) {
    if (!isName(params.id)) return { kind: "pool_not_found" };
    const answer = await api.removePool(callerOf(key), params.id);
    return answer.kind === "not_found" ? { kind: "pool_not_found" } : removed(answer);
  },

  async drainPool({ api }, { params, body, key }) {
    if (!isName(params.id)) return { kind: "pool_not_found" };
    const draining = body.draining ? true : undefined;
    const answer = await api.changePool(callerOf(key), params.id, { draining });
    return answer.kind === "not_found" ? { kind: "pool_not_found" } : changedPool(answer);
  },

  async addPoolTopic({ api }, { params, key }) {
    if (!isName(params.id)) return badName("the pool's name");
    if (!isName(params.topic)) return badName("the topic");
    const answer = await api.addPoolTopic(callerOf(key), params.id, params.topic);
    return answer.kind === "not_found" ? { kind: "effect_unknown" } : changedPool(answer);
  },

  async removePoolTopic({ api }, { params, key }) {
    if (!isName(params.id) || !isName(params.topic)) return { kind: "pool_not_found" };
    const answer = await api.removePoolTopic(callerOf(key), params.id, params.topic);
    return answer.kind === "not_found" ? { kind: "pool_not_found" } : removed(answer);
  },

  async listTopics({ api }, { key: { tenant } }) {
    const answer = await api.listTopics(tenant);
    if (answer.kind !== "listed") return answer;
    return pageReply({ operation: "listTopics", tenant }, answer.topics.map(topicView), undefined);
  },

  async setTopic({ api }, { params, body, key }) {
    if (!isName(params.id)) return badName("the topic");
    const answer = await api.setTopic(callerOf(key), params.id, body.max_running);
    if (answer.kind === "topic") return { status: 200, body: topicView(answer.topic) };
    return notChanged(answer);
  },

  async removeTopic({ api }, { params, key }) {
    if (!isName(params.id)) return { kind: "topic_not_found" };
    const answer = await api.removeTopic(callerOf(key), params.id);
    return answer.kind === "not_found" ? { kind: "topic_not_found" } : removed(answer);
  },
};

function isName(text: string): boolean {
  return poolName.safeParse(text).success;
}

function badName(what: string): Failure<"invalid_request"> {
  return {
    kind: "invalid_request",
    detail: `${what} may hold up to 128 letters, digits and . _ -, and begins with a letter or digit`,
  };
}

function changedPool(answer: Exclude<ChangePoolAnswer, { kind: "not_found" }>) {
  if (answer.kind === "pool") return { status: 200, body: poolView(answer.pool) } as const;
  return notChanged(answer);
}

function notChanged(answer: Exclude<ChangePoolAnswer, { kind: "not_found" } | { kind: "pool" }>) {
  switch (answer.kind) {
    case "too_many":
      return { kind: "invalid_request", detail: answer.detail } as const;
    case "version_conflict":
      return { kind: "version_conflict" } as const;
    case "unauthenticated":
    case "unavailable":
    case "unknown":
      return answer;
  }
}

function removed(answer: Exclude<RemovedAnswer, { kind: "not_found" }>) {
  switch (answer.kind) {
    case "removed":
      return { status: 204, body: undefined } as const;
    case "version_conflict":
      return { kind: "version_conflict" } as const;
    case "unauthenticated":
    case "unavailable":
    case "unknown":
      return answer;
  }
}

function poolView({ name, limits = {}, running, isDrained, workers }: PoolInfo) {
  const { maxRunning, topics, draining = false } = limits;
  return {
    ...{ name, running, draining, drained: isDrained, workers: [...workers] },
    ...(maxRunning === undefined ? {} : { max_running: maxRunning }),
    ...(topics === undefined ? {} : { topics: [...topics] }),
  };
}

function topicView({ name, maxRunning, running, waiting, workers }: TopicInfo) {
  return {
    ...{ name, running, waiting, workers: [...workers] },
    ...(maxRunning === undefined ? {} : { max_running: maxRunning }),
  };
}
