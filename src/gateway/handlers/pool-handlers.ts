// Pools and topics over HTTP.
import { poolName } from "../../api/pool-routes.ts";
import type { PoolChanges, PoolInfo, TopicInfo } from "../../control/pools/pools.ts";
import { callerOf, type Failure, type Handlers } from "../handler.ts";
import { pageReply } from "../http-reply.ts";

type PoolHandlers = Pick<
  Handlers,
  | ("listPools" | "getPool" | "setPool" | "changePool" | "removePool" | "drainPool")
  | ("addPoolTopic" | "removePoolTopic" | "listTopics" | "setTopic" | "removeTopic")
>;

export const poolHandlers: PoolHandlers = {
  async listPools({ api }, { key: { tenant } }) {
    const answer = await api.listPools({ tenant });
    if (answer.kind !== "listed") return answer;
    return pageReply({ operation: "listPools", tenant }, answer.pools.map(poolView), undefined);
  },

  async getPool({ api }, { params, key: { tenant } }) {
    if (!isName(params.id)) return { kind: "pool_not_found" };
    const answer = await api.getPool({ tenant, name: params.id });
    return answer.kind === "pool" ? { status: 200, body: poolView(answer.pool) } : answer;
  },

  async setPool({ api }, { params, body, key }) {
    if (!isName(params.id)) return badName("the pool's name");
    const { max_running, topics } = body;
    const limits = {
      ...(max_running === undefined ? {} : { maxRunning: max_running }),
      ...(topics === undefined ? {} : { topics }),
    };
    const answer = await api.setPool({ caller: callerOf(key), name: params.id, limits });
    return answer.kind === "pool" ? { status: 200, body: poolView(answer.pool) } : answer;
  },

  async changePool({ api }, { params, body, key }) {
    if (!isName(params.id)) return { kind: "pool_not_found" };
    const { max_running, topics, draining } = body;
    const changes: PoolChanges = {
      ...(max_running === undefined ? {} : { maxRunning: max_running ?? undefined }),
      ...(topics === undefined ? {} : { topics: topics ?? undefined }),
      ...(draining === undefined ? {} : { draining: draining ? true : undefined }),
    };
    const answer = await api.changePool({ caller: callerOf(key), name: params.id, changes });
    return answer.kind === "pool" ? { status: 200, body: poolView(answer.pool) } : answer;
  },

  async removePool({ api }, { params, key }) {
    if (!isName(params.id)) return { kind: "pool_not_found" };
    const answer = await api.removePool({ caller: callerOf(key), name: params.id });
    return answer.kind === "removed" ? { status: 204, body: undefined } : answer;
  },

  async drainPool({ api }, { params, body, key }) {
    if (!isName(params.id)) return { kind: "pool_not_found" };
    const draining = body.draining ? true : undefined;
    const answer = await api.changePool({ caller: callerOf(key), name: params.id, changes: { draining } });
    return answer.kind === "pool" ? { status: 200, body: poolView(answer.pool) } : answer;
  },

  async addPoolTopic({ api }, { params, key }) {
    if (!isName(params.id)) return badName("the pool's name");
    if (!isName(params.topic)) return badName("the topic");
    const answer = await api.addPoolTopic({ caller: callerOf(key), name: params.id, topic: params.topic });
    return answer.kind === "pool" ? { status: 200, body: poolView(answer.pool) } : answer;
  },

  async removePoolTopic({ api }, { params, key }) {
    if (!isName(params.id) || !isName(params.topic)) return { kind: "pool_not_found" };
    const answer = await api.removePoolTopic({ caller: callerOf(key), name: params.id, topic: params.topic });
    return answer.kind === "removed" ? { status: 204, body: undefined } : answer;
  },

  async listTopics({ api }, { key: { tenant } }) {
    const answer = await api.listTopics({ tenant });
    if (answer.kind !== "listed") return answer;
    return pageReply({ operation: "listTopics", tenant }, answer.topics.map(topicView), undefined);
  },

  async setTopic({ api }, { params, body, key }) {
    if (!isName(params.id)) return badName("the topic");
    const answer = await api.setTopic({
      caller: callerOf(key),
      name: params.id,
      maxRunning: body.max_running,
    });
    return answer.kind === "topic" ? { status: 200, body: topicView(answer.topic) } : answer;
  },

  async removeTopic({ api }, { params, key }) {
    if (!isName(params.id)) return { kind: "topic_not_found" };
    const answer = await api.removeTopic({ caller: callerOf(key), name: params.id });
    return answer.kind === "removed" ? { status: 204, body: undefined } : answer;
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
