// What the compiler must refuse in programs that use the SDK: each expected error is one, or the types stage fails.
import { expect, test } from "vitest";
import { type Client, createClient, defineWorkflow, type, worker } from "../../src/sdk/index.ts";

const order = defineWorkflow({
  id: "order",
  input: type<{ id: string; amount: number }>(),
  steps: (make) => {
    const fetched = make.worker({
      topic: "fetch",
      input: { id: make.input.id, rush: true },
      output: type<{ items: readonly string[] }>(),
    });
    const packed = make.each(fetched.output.items, {
      topic: "pack",
      input: (item) => ({ item }),
      output: type<number>(),
    });
    const sent = make.worker({
      topic: "send",
      input: { weights: packed.output },
      output: type<{ code: string }>(),
    });
    return { fetched, packed, sent };
  },
});

/** Never called: compiling it is the test. */
async function program(client: Client): Promise<void> {
  const run = await client.call("getRun", { params: { id: "r" } });
  run.status satisfies
    | "queued"
    | "pending"
    | "running"
    | "waiting"
    | "succeeded"
    | "failed"
    | "denied"
    | "cancelled"
    | "timed_out";
  // @ts-expect-error a run has no such member
  run.state;
  // @ts-expect-error the path needs an id
  await client.call("getRun");
  // @ts-expect-error there is no such operation
  await client.call("getRuns", { params: { id: "r" } });
  // @ts-expect-error streams are not calls
  await client.call("streamEvents");
  // @ts-expect-error no such status
  await client.call("listRuns", { query: { status: "done" } });
  await client.call("listRuns", { query: { limit: 5, status: "failed" } });
  // @ts-expect-error a lock needs its resource
  await client.call("acquireLock", { body: { ttl_ms: 1_000 } });
  await client.call("acquireLock", { body: { resource: "r" } });
  await client.call("cancelRun", { params: { id: "r" } });
  // @ts-expect-error no body where the operation has none
  await client.call("getRun", { params: { id: "r" }, body: { a: 1 } });

  await client.runs.start("order", { anything: true });
  await client.runs.start(order, { id: "o", amount: 1 });
  // @ts-expect-error the amount is missing
  await client.runs.start(order, { id: "o" });
  // @ts-expect-error the amount is a number
  await client.runs.start(order, { id: "o", amount: "1" });
  // @ts-expect-error the code is a text
  order.outputs(run).sent?.code satisfies number | undefined;
  order.outputs(run).packed satisfies readonly number[] | undefined;

  worker({
    client,
    topics: order.handlers({
      fetch: (job) => ({ items: [job.input.id, String(job.input.rush)] }),
      pack: (job) => job.input.item.length,
      send: async (job) => ({ code: String(job.input.weights[0]) }),
    }),
  });
  // @ts-expect-error "send" has no handler
  order.handlers({ fetch: () => ({ items: [] }), pack: () => 1 });
  order.handlers({
    // @ts-expect-error the items are a list of texts
    fetch: () => ({ items: [1] }),
    pack: () => 1,
    // @ts-expect-error there is no such input
    send: (job) => ({ code: job.input.address }),
  });
  defineWorkflow({
    id: "wrong",
    input: type<{ id: string }>(),
    steps: ({ input, worker: work, each }) => {
      const fetched = work({ topic: "fetch", output: type<{ n: number }>() });
      // @ts-expect-error the input has no such member
      const first = work({ topic: "a", input: { x: input.name } });
      // @ts-expect-error nor has the step's output
      const second = work({ topic: "b", input: { x: fetched.output.m } });
      // @ts-expect-error a number is not a list
      const third = each(fetched.output.n, { topic: "c", input: () => ({}) });
      return { fetched, first, second, third };
    },
  });
}

test("the types above hold, and the programs they are for begin", () => {
  expect(typeof program).toBe("function");
  expect(order.definition.id).toBe("order");
  expect(createClient({ url: "http://127.0.0.1:7300" }).url).toBe("http://127.0.0.1:7300");
});
