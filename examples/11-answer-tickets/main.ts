// Tickets that wait their turn: one of each customer at a time, two calls of the model at once, important customers first,
// 30 a minute and 25 USD a day.
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
  { ticket: "eve-1", customer: "eve" },
];
const runs: string[] = [];
for (const input of tickets) {
  const run = await client.runs.start("answer-ticket", input, { idempotencyKey: input.ticket });
  runs.push(run.run_id);
  console.log(`${input.ticket} is ${run.status}${placeOf(run)}`);
}

function placeOf(run: Awaited<ReturnType<typeof client.runs.start>>): string {
  if ("rate" in run) return ` until its rate lets it go on at ${run.starts_at?.slice(11, 19)}`;
  return "gate" in run ? ` at position ${run.position} of the gate ${run.gate?.split(".")[0]}` : "";
}

const dan = await client.runs.why(runs[4] as string);
console.log("why dan waits:", dan.summary);

// A worker that drafts one answer after the other.
const drafter = worker({
  url: server.url,
  apiKey: server.keys.worker,
  concurrency: 1,
  topics: {
    "tickets.draft": (job) => {
      console.log("drafting", (job.input as { ticket: string }).ticket);
      job.used({ usd: 0.015, tokens: 1_200 }); // what the model said that the call has cost
    },
  },
});
for (const run of runs) await client.runs.wait(run, { timeoutMs: 60_000 });
console.log("gates at which runs wait:", (await client.queues.list().take(10)).length);
const [daily] = await client.budgets.list().take(1);
console.log(`spent ${daily?.spent} of ${daily?.amount} ${daily?.unit} of the ${daily?.per}`);

await drafter.stop();
await server.stop();
