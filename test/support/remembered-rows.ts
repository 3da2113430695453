// What a process remembers of settings, keys and definitions, as rows of a table: the call that can fail, and what shows the memory.
import type { ApiKeyRecord } from "../../src/domain/api-key.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { OperationName } from "../../src/ports/store.ts";
import { acme, ann, type FlowPlane, type FlowWorld, only, work } from "./flow-world.ts";

/** `p` remembers and fails; `q` is another process. */
export type Memory = {
  readonly flow: FlowWorld;
  readonly p: FlowPlane;
  readonly q: FlowPlane;
  /** What a row keeps between its functions. */
  readonly facts: Map<string, string>;
};

export type MemoryRow = {
  /** The call of `p` between its decision and what it remembers. */
  readonly call: OperationName;
  /** Until `p` remembers what the act is about. */
  arrange(memory: Memory): Promise<void>;
  act(memory: Memory): Promise<{ readonly kind: string }>;
  /** What somebody else does while the call is under way. */
  other(memory: Memory): Promise<unknown>;
  /** What a process does by what it remembers, or by what it finds when it remembers nothing. */
  look(memory: Memory, plane: FlowPlane): Promise<unknown>;
};

/** Starts a run: by which call, and of which definition. Then it is removed again. */
async function startedBy({ flow }: Memory, plane: FlowPlane): Promise<unknown> {
  const before = plane.member.calls.length;
  const answer = await flow.finish(plane.api.startWorkflow({ caller: ann, workflow: "one", input: {} }));
  if (answer.kind !== "admitted") return answer.kind;
  const names = plane.member.calls.slice(before).map(({ name }) => name);
  const { definition } = await flow.header(answer.runId);
  only(await flow.finish(plane.api.deleteRun({ caller: ann, runId: answer.runId })), "deleted");
  return { strategy: names.includes("createRun") ? "lock" : "atomic", definition };
}

const byLock = { "admission.strategy": "lock" } as const;
const otherPolicies = { "results.wait": "fixed" } as const;

async function rememberStart(memory: Memory): Promise<void> {
  await memory.p.save("one", { a: work() });
  await startedBy(memory, memory.p);
}

const settingsOf = (tenant: TenantId | undefined): MemoryRow => ({
  call: "setTenant",
  arrange: rememberStart,
  act: ({ p }) => p.api.setPolicies({ actor: "root", tenant, changes: byLock }),
  other: ({ q }) => q.api.setPolicies({ actor: "root", tenant, changes: otherPolicies }),
  look: startedBy,
});

const rollout: MemoryRow = {
  ...settingsOf(acme),
  act: ({ p }) => p.api.rollOut({ actor: "root", tenant: acme, policies: byLock, percent: 99.99 }),
};

const keyRow = (call: "setTenant" | "removeDocument"): MemoryRow => ({
  call,
  async arrange(memory) {
    const { flow, p, facts } = memory;
    const asked = { by: "root", tenant: acme, role: "operator", name: "key" } as const;
    const made = only(await flow.finish(p.api.createKey(asked)), "created");
    facts.set("text", made.text).set("keyId", made.key.keyId);
    await this.look(memory, p);
  },
  act: ({ p, facts }) =>
    p.api.revokeKey({ by: "root", tenant: acme, keyId: facts.get("keyId") as ApiKeyRecord["keyId"] }),
  other: ({ q }) => q.api.setPolicies({ actor: "root", tenant: acme, changes: otherPolicies }),
  async look({ flow, facts }, plane) {
    return (await flow.finish(Promise.resolve(plane.api.authenticate({ text: facts.get("text") ?? "" }))))
      .kind;
  },
});

const twoSteps = (second: string) => ({
  id: "one",
  steps: { a: work(), [second]: work() },
});

const definition: MemoryRow = {
  call: "putDocument",
  arrange: rememberStart,
  act: ({ p }) => p.api.saveWorkflow({ caller: ann, definition: twoSteps("b") }),
  other: ({ q }) => q.api.saveWorkflow({ caller: ann, definition: twoSteps("c") }),
  look: startedBy,
};

const removedDefinition: MemoryRow = {
  ...definition,
  call: "removeDocument",
  act: ({ p }) => p.api.removeWorkflow({ caller: ann, id: "one" }),
};

export const memoryRows: Readonly<Record<string, MemoryRow>> = {
  "the settings of a tenant": settingsOf(acme),
  "the settings of the platform": settingsOf(undefined),
  "a rollout": rollout,
  "a key that is revoked": keyRow("setTenant"),
  "a key whose record is removed": keyRow("removeDocument"),
  "the definition of a workflow": definition,
  "a workflow that is removed": removedDefinition,
};
