// The store's sets of places and queues hold exactly what the runs say (INV-33), and the sweep would find what it must (INV-37).
import { orderedNumber } from "../../../src/adapters/operations/records.ts";
import { type GateId, tenantGate } from "../../../src/domain/gates.ts";
import type { RunId } from "../../../src/domain/run.ts";
import { partitionLabel, partitionOf, type TenantId } from "../../../src/domain/tenant.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { InvariantName } from "../invariants/invariants.ts";
import { mustHold } from "../invariants/violation.ts";
import type { GatePosition, Waiting } from "./gate-position.ts";
import type { JournaledRecords } from "./journaled-records.ts";

const allMax = 10_000;

type SetKind = "active" | "place" | "heldGate" | "gateQueue" | "line" | "lineKey" | "queuedRun" | "queued";

export class GateIndexes {
  readonly #records: JournaledRecords;

  constructor(records: JournaledRecords) {
    this.#records = records;
  }

  check({ name }: StoreExecution, tenant: TenantId, runs: ReadonlyMap<RunId, GatePosition>): void {
    const expected = new Expected();
    const held = new Map<GateId, string[]>();
    const arrivals = new Map<string, RunId>();
    for (const [runId, { held: gates, waiting, member, deadlineAtMs, startsAtMs }] of runs) {
      for (const gate of gates) held.set(gate, [...(held.get(gate) ?? []), member]);
      if (startsAtMs !== undefined) {
        expected.add("queued", tenant, member);
        this.#checkDue(name, tenant, runId, deadlineAtMs);
      }
      if (waiting === undefined) continue;
      const arrival = `${waiting.gate} ${waiting.arrival}`;
      const other = arrivals.get(arrival);
      const isTaken = () => `${name} gave ${runId} the place of ${other} in the queue of ${waiting.gate}`;
      mustHold(other === undefined, "INV-33", isTaken);
      arrivals.set(arrival, runId);
      expected.add("queued", tenant, member);
      expected.add("gateQueue", tenant, waiting.gate);
      const scope = `${tenant}/${waiting.gate}/${String(waiting.level).padStart(2, "0")}`;
      expected.add("queuedRun", scope, `${waiting.key} ${orderedNumber(waiting.arrival)} ${runId}`);
      this.#expectKey(expected, scope, waiting);
      this.#checkDue(name, tenant, runId, deadlineAtMs);
    }
    for (const [gate, members] of held) {
      if (gate === tenantGate) continue;
      expected.add("heldGate", tenant, gate);
      for (const member of members) expected.add("place", `${tenant}/${gate}`, member);
    }
    this.#compare(name, tenant, expected);
    this.#checkActive(name, tenant, runs);
  }

  /** The sweep looks at the gate, by itself or with all others of its tenant. */
  isInAttention(tenant: TenantId, gate: GateId): boolean {
    const scope = partitionLabel(partitionOf(tenant));
    const atMs = this.#records.get("gateQueue", tenant, gate)?.dueAtMs;
    const own = atMs === undefined ? undefined : `${orderedNumber(atMs)} gate ${tenant} ${gate}`;
    if (own !== undefined && this.#records.get("due", scope, own) !== undefined) return true;
    return this.#records.scan("due", scope, "", allMax).some(({ member }) => {
      const [, kind, of, after = ""] = member.split(" ");
      return kind === "gates" && of === tenant && after < gate;
    });
  }

  /** A key stands in the line of its level where its tag says. */
  #expectKey(expected: Expected, scope: string, { key }: Waiting): void {
    expected.add("lineKey", scope, key);
    const line = this.#records.get("lineKey", scope, key);
    if (line === undefined) return;
    expected.add("line", scope, `${orderedNumber(line.tag)} ${orderedNumber(line.arrival)} ${key}`);
  }

  #checkDue(name: string, tenant: TenantId, runId: RunId, deadlineAtMs: number): void {
    const member = `${orderedNumber(deadlineAtMs)} queued ${tenant} ${runId}`;
    mustHold(
      this.#records.get("due", partitionLabel(partitionOf(tenant)), member) !== undefined,
      "INV-37",
      () => `${name} left ${runId} waiting, and nothing would end that at its deadline`,
    );
  }

  #compare(name: string, tenant: TenantId, expected: Expected): void {
    for (const kind of [
      "place",
      "heldGate",
      "gateQueue",
      "line",
      "lineKey",
      "queuedRun",
      "queued",
    ] as const) {
      const stored: string[] = [];
      for (const { scope, member } of this.#records.all(kind))
        if (scope === tenant || scope.startsWith(`${tenant}/`)) stored.push(`${scope} ${member}`);
      this.#mustAgree("INV-33", name, kind, stored, expected.of(kind));
    }
  }

  /** A run that waits is no active one: the slots are those of the others. */
  #checkActive(name: string, tenant: TenantId, runs: ReadonlyMap<RunId, GatePosition>): void {
    for (const [runId, { waiting, slot }] of runs) {
      if (waiting === undefined) continue;
      mustHold(
        this.#records.get("active", tenant, slot) === undefined,
        "INV-33",
        () => `${name} counts ${runId} as active, and it waits at ${waiting.gate}`,
      );
    }
  }

  #mustAgree(
    invariant: InvariantName,
    name: string,
    kind: SetKind,
    stored: readonly string[],
    expected: ReadonlySet<string>,
  ): void {
    const extra = stored.filter((member) => !expected.has(member));
    const found = new Set(stored);
    const missing = [...expected].filter((member) => !found.has(member));
    mustHold(
      extra.length === 0 && missing.length === 0,
      invariant,
      () =>
        `${name} left ${kind} with ${extra.join(", ") || "nothing"} too many, without ${missing.join(", ")}`,
    );
  }
}

class Expected {
  readonly #sets = new Map<SetKind, Set<string>>();

  add(kind: SetKind, scope: string, member: string): void {
    this.#sets.set(kind, this.of(kind).add(`${scope} ${member}`));
  }

  of(kind: SetKind): Set<string> {
    return this.#sets.get(kind) ?? new Set();
  }
}
