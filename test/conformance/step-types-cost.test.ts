// What a result of a large for_each costs, in what is read and written rather than in time: late as much as early.
import { expect, test } from "vitest";
import { createMemoryStore, MemoryRecords } from "../../src/adapters/memory-store.ts";
import type { RecordKind, RecordKinds } from "../../src/adapters/operations/records.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import { type ControlPlane, createControlPlane } from "../../src/control-plane.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { defaultStoreSettings, executeOn, type Store, storeFrom } from "../../src/ports/store.ts";
import { silentLog } from "../support/silent-log.ts";

const items = 5_000;
const tenant = "acme" as TenantId;
const caller = { tenant, actor: "ann" };

type Cost = { operations: number; reads: number; writes: number; scanned: number; characters: number };

const nothing: Cost = { operations: 0, reads: 0, writes: 0, scanned: 0, characters: 0 };

class CountingRecords extends MemoryRecords {
  readonly cost: Cost;

  constructor(cost: Cost) {
    super();
    this.cost = cost;
  }

  override get<Kind extends RecordKind>(kind: Kind, scope: string, member: string) {
    this.cost.reads += 1;
    return super.get(kind, scope, member);
  }

  override put<Kind extends RecordKind>(kind: Kind, scope: string, member: string, value: RecordKinds[Kind]) {
    this.cost.writes += 1;
    super.put(kind, scope, member, value);
  }

  override erase(kind: RecordKind, scope: string, member: string) {
    this.cost.writes += 1;
    super.erase(kind, scope, member);
  }

  override scan<Kind extends RecordKind>(kind: Kind, scope: string, after: string, limit: number) {
    const rows = super.scan(kind, scope, after, limit);
    this.cost.scanned += rows.length;
    return rows;
  }
}

/** Few enough that old rows are trimmed from early on: that is one write more. */
const settings = { ...defaultStoreSettings, timelineRowsMax: 100, eventsPerTenantMax: 100 };

/** Counts what goes over the border, too, and tells when an entry has been applied. */
function counting(cost: Cost, hear: () => void): Store {
  const records = new CountingRecords(cost);
  const store = createMemoryStore({ clock: systemClock, settings, records });
  const execute = executeOn(store);
  return storeFrom(
    async (name, request, options) => {
      const answer = await execute(name, request, options);
      cost.operations += 1;
      cost.characters += JSON.stringify(request).length + JSON.stringify(answer).length;
      const consumed = "consumed" in request ? Number(request.consumed) : 0;
      if (answer.kind === "applied" || (answer.kind === "committed" && consumed > 0)) hear();
      return answer;
    },
    () => store.close(),
  );
}

async function claim({ api }: ControlPlane, pollId: string): Promise<readonly ClaimedJob[]> {
  const poll = { caller, worker: "w", topics: ["work"], pollId, places: 50, waitMs: 5_000 };
  const answer = await api.pollJobs(poll);
  if (answer.kind !== "jobs") throw new Error(answer.kind);
  return answer.jobs;
}

test("a result of a for_each costs as much at the end as at the beginning", async () => {
  const cost = { ...nothing };
  let hear = () => {};
  const plane = await createControlPlane({
    ports: { store: counting(cost, () => hear()), log: silentLog },
    // The sweep would be counted with the results that it happens to meet.
    overrides: { "sweep.everyMs": 60_000 },
  });
  const steps = {
    it: { topic: "work", for_each: "input.items", max_parallel: 50, input: { order: "${item}" } },
  };
  expect((await plane.api.saveWorkflow({ caller, definition: { id: "flow", steps } })).kind).toBe("saved");
  const input = { items: Array.from({ length: items }, (_, index) => `order-${index}`) };
  expect((await plane.api.startWorkflow({ caller, workflow: "flow", input })).kind).toBe("admitted");
  const costs: Cost[] = [];
  for (let polls = 0; costs.length < items; polls += 1) {
    for (const { job, token } of await claim(plane, String(polls))) {
      Object.assign(cost, nothing);
      const applied = new Promise<void>((resolve) => {
        hear = resolve;
      });
      await plane.api.reportResult({ caller, jobId: job.jobId, token, outcome: "succeeded", output: {} });
      await applied;
      costs.push({ ...cost });
    }
  }
  await plane.close();
  const worst = (some: readonly Cost[], of: keyof Cost) => Math.max(...some.map((one) => one[of]));
  const early = costs.slice(500, 600);
  // The last ones have no further item to begin, and the very last puts the outputs together.
  const late = costs.slice(-200, -100);
  expect(worst(early, "operations")).toBe(1);
  for (const of of Object.keys(nothing) as (keyof Cost)[]) {
    expect(worst(late, of), of).toBeLessThanOrEqual(worst(early, of) * 1.05);
  }
});
