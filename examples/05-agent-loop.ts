// Two agents and one calendar: each loops until its meetings are booked, and takes the lock of the calendar for every round.
//
//   npx tsx examples/05-agent-loop.ts
//
// The calendar is no part of Interlock: it is another HTTP server, which refuses requests with an old fence.
// The example starts a server of its own, and stops it at the end.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, fenceGuard, InterlockApiError, withLock, worker } from "interlock/sdk";
import { startServer } from "./support/server.ts"; // yours is there already: npx interlock serve

type Meeting = { readonly agent: string; readonly hour: number };

// The calendar: anyone may read; a writer sends the fence of the lock, and older ones are refused.
const meetings: Meeting[] = [];
const guard = fenceGuard();
const calendar = createServer((request, response) => {
  if (request.method === "GET") return void response.end(JSON.stringify(meetings));
  guard.express(request, response, () => {
    void json(request).then((meeting) => {
      meetings.push(meeting as Meeting);
      response.end();
    });
  });
}).listen(0, "127.0.0.1");
await once(calendar, "listening");
const calendarUrl = `http://127.0.0.1:${(calendar.address() as AddressInfo).port}`;

const book = (meeting: Meeting, headers: Readonly<Record<string, string>>) =>
  fetch(calendarUrl, { method: "POST", headers, body: JSON.stringify(meeting) });

const server = await startServer();
const client = createClient({ url: server.url, apiKey: server.keys.admin });
await client.workflows.save(`
id: book-meetings
steps:
  rounds:
    type: loop
    input: {body: book, until: steps.book.output.left == 0, max_iterations: 10}
  book:
    topic: agent.book
    input: {agent: "\${input.agent}", left: "\${input.meetings - loop.iteration}"}
`);

const agents = worker({
  client,
  topics: {
    "agent.book": (job) => {
      const { agent, left } = job.input as { readonly agent: string; readonly left: number };
      const askedAt = performance.now();
      return withLock(
        client,
        "calendar/team",
        async (lease) => {
          const waitedMs = performance.now() - askedAt;
          const taken = (await (await fetch(calendarUrl)).json()) as readonly Meeting[];
          const hour = Math.max(8, ...taken.map((meeting) => meeting.hour)) + 1;
          await sleep(100, undefined, { signal: lease.signal }); // the agent thinks about it: nobody else may book meanwhile
          const answer = await book({ agent, hour }, lease.headers());
          if (!answer.ok) throw new Error(`the calendar answers ${answer.status}`);
          console.log(`${agent} books ${hour}:00, having waited ${waitedMs.toFixed()} ms for its turn`);
          return { hour, left };
        },
        { owner: agent, signal: job.signal },
      );
    },
  },
});

// Two agents at once, three meetings each. Without the lock both would find the same hour free.
const runs = await Promise.all(
  ["ada", "bob"].map((agent) => client.runs.start("book-meetings", { agent, meetings: 3 })),
);
const ended = await Promise.all(runs.map(({ run_id }) => client.runs.wait(run_id, { timeoutMs: 60_000 })));
const hours = new Set(meetings.map(({ hour }) => hour));
console.log(
  `${ended.map(({ status }) => status).join(", ")}: ${meetings.length} meetings, ${hours.size} hours\n`,
);

// An agent that does not want to wait learns who holds the lock.
const headersOfAda = await withLock(
  client,
  "calendar/team",
  async (lease) => {
    const busy = await withLock(client, "calendar/team", () => {}, { owner: "cleo", waitMs: 0 }).catch(
      (error: unknown) => error,
    );
    if (busy instanceof InterlockApiError) {
      const holder = busy.problem.holder as { readonly owner: string };
      console.log(`cleo is refused: ${busy.status} ${busy.code}, ${holder.owner} has it`);
    }
    return lease.headers();
  },
  { owner: "ada" },
);

// An agent that was away for longer than its lock (here: it keeps what belonged to it) is refused by the calendar itself.
await withLock(client, "calendar/team", (lease) => book({ agent: "bob", hour: 17 }, lease.headers()), {
  owner: "bob",
});
const refused = await book({ agent: "ada", hour: 17 }, headersOfAda);
console.log(
  `ada comes late: ${refused.status} ${((await refused.json()) as { readonly code: string }).code}`,
);
console.log(
  "17:00 belongs to",
  meetings
    .filter(({ hour }) => hour === 17)
    .map(({ agent }) => agent)
    .join(", "),
);

await agents.stop();
calendar.close();
await server.stop();
