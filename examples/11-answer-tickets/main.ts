// Tickets that wait their turn: one of each customer at a time, two calls of the model at once, important customers first.
//
//   npx tsx examples/11-answer-tickets/main.ts
//
// It starts a server of its own, and stops it at the end.
import { readFileSync } from "node:fs";
import { createClient, worker } from "interlock/sdk";
import { startServer } from "../support/server.ts"; // yours is there already: npx interlock serve

const server = await startServer();
const platform = createClient({ url: server.url, apiKey: server.keys.platform });
await platform.tenants.change("default", { gates: { model: { max: 2 } } });

const client = createClient({ url: server.url, apiKey: server.keys.admin });
await client.workflows.save(readFileSync(new URL("answer-ticket.yaml", import.meta.url), "utf8"));

const tickets = [
  { ticket: "ada-1", customer: "ada" },
  { ticket: "bob-1", customer: "bob" },
  { ticket: "ada-2", customer: "ada" },
  { ticket: "cyd-1", customer: "cyd" },
  { ticket: "dan-1", customer: "dan", vip: true },
];
const runs: string[] = [];
for (const input of tickets) {
  const run = await client.runs.start("answer-ticket", input, { idempotencyKey: input.ticket });
  runs.push(run.run_id);
  const place = "gate" in run ? ` at position ${run.position} of the gate ${run.gate.split(".")[0]}` : "";
  console.log(`${input.ticket} is ${run.status}${place}`);
}
const dan = await client.runs.why(runs[4] as string);
console.log("why dan waits:", dan.summary);

// A worker that drafts one answer after the other.
const drafter = worker({
  url: server.url,
  apiKey: server.keys.worker,
  concurrency: 1,
  topics: { "tickets.draft": ({ input }) => console.log("drafting", (input as { ticket: string }).ticket) },
});
for (const run of runs) await client.runs.wait(run, { timeoutMs: 60_000 });
console.log("gates at which runs wait:", (await client.queues.list().take(10)).length);

await drafter.stop();
await server.stop();
