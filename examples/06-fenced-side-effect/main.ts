// A side effect that happens once: a worker freezes right before it pays, another one does its work, and when the first
// one wakes up and goes on, the payment service refuses it.
//
//   npx tsx examples/06-fenced-side-effect/main.ts
//
// It starts a server, a payment service and two workers of its own, and stops them at the end.

import Fastify from "fastify";
import { createClient, fenceGuard } from "interlock/sdk";
import { startScript } from "../support/processes.ts";
import { startServer } from "../support/server.ts"; // yours is there already: npx interlock serve

// The payment service: one line guards all its routes. It remembers the highest fence of each resource, and refuses lower ones.
const payments: unknown[] = [];
const service = Fastify();
service.addHook("onRequest", fenceGuard().fastify);
service.post("/payments", (request) => {
  payments.push(request.body);
  console.log("payment service | paid", JSON.stringify(request.body));
  return { paid: true };
});
const paymentUrl = await service.listen({ host: "127.0.0.1", port: 0 });

const server = await startServer();
const client = createClient({ url: server.url, apiKey: server.keys.admin });
await client.workflows.save({
  id: "order",
  steps: { pay: { topic: "orders.pay", input: { order: "${input.order}", amount: "${input.amount}" } } },
});
const { run_id } = await client.runs.start("order", { order: "A-7", amount: 250 });

const startWorker = (name: string, args: readonly string[], readyWhen: RegExp) =>
  startScript("examples/06-fenced-side-effect/worker.ts", {
    name,
    args: [name, ...args],
    env: { INTERLOCK_URL: server.url, INTERLOCK_API_KEY: server.keys.worker, PAYMENT_URL: paymentUrl },
    readyWhen,
    shown: true,
  });

const first = await startWorker("worker-1", ["freeze"], /about to pay/);
console.log(
  "(worker-1 is frozen: it sends no sign of life, and after a second its job is given to somebody else)",
);
const second = await startWorker("worker-2", [], /waits for jobs/);
const run = await client.runs.wait(run_id, { timeoutMs: 60_000 });
console.log(`(the run has ${run.status}; now worker-1 wakes up, and knows nothing of all that)`);
first.signal("SIGCONT");
await first.says(/the payment service answers/);

console.log(`payments: ${payments.length}, attempts: ${run.steps.pay?.attempts}`);
if (payments.length !== 1) process.exitCode = 1;

await Promise.all([first.stop(), second.stop()]);
await service.close();
await server.stop();
