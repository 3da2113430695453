// A person decides: small refunds are paid at once, a large one waits until somebody has looked at it.
//
//   npx tsx examples/02-approval.ts
//
// It starts a server of its own, and stops it at the end. On the command line a decision is `interlock approvals list` and
// `interlock approve <approval>`.
import { readFileSync } from "node:fs";
import { createClient, InterlockApiError, worker } from "interlock/sdk";
import { startServer } from "./support/server.ts"; // yours is there already: npx interlock serve

const server = await startServer();
const client = createClient({ url: server.url, apiKey: server.keys.admin });
await client.workflows.save(readFileSync(new URL("workflows/refund.json", import.meta.url), "utf8"));

const bank = worker({
  url: server.url,
  apiKey: server.keys.worker,
  topics: { "demo.pay": (job) => ({ paid: (job.input as { readonly amount: number }).amount }) },
});

const small = await client.runs.start("demo-refund", { order: "A-1", amount: 20 });
console.log("20 for order A-1:", (await client.runs.wait(small.run_id)).status);

const large = await client.runs.start("demo-refund", { order: "A-2", amount: 250 });
console.log("250 for order A-2:", (await client.runs.get(large.run_id)).status);
console.log("why:", (await client.runs.why(large.run_id)).summary);

// What is to be decided. The hash stands for exactly what is shown: an approval that names it approves nothing else.
for await (const { job_id } of client.approvals.list({ state: "pending" })) {
  const { payload, hash } = await client.approvals.context(job_id);
  console.log("somebody is asked about", JSON.stringify(payload));
  const { state } = await client.approvals.approve(job_id, { hash, reason: "known customer" });
  console.log("the decision:", state);

  // The first decision stands.
  const second = await client.approvals.reject(job_id).catch((error: unknown) => error);
  if (second instanceof InterlockApiError) console.log("a second one:", second.status, second.code);
}
console.log("250 for order A-2:", (await client.runs.wait(large.run_id)).status);

await bank.stop();
await server.stop();
