// Random operation sequences that must give the same outcomes on every store; shrinks to the shortest that does not.
import fc from "fast-check";
import type { Fence, Guard, LockName, LockToken, RenewalPolicy } from "../../src/domain/lock.ts";
import { makeRunId, type RunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { executeOn, type OperationName, type RequestOf, type Store } from "../../src/ports/store.ts";
import { call, key } from "../../src/testing/conformance/harness.ts";

/** Times stand far apart, so that no outcome depends on how fast a store answers. */
const ttls = { short: 50, long: 600_000 } as const;
const waitMs = 100;

type Command =
  | { readonly kind: "wait" }
  | {
      readonly kind: "call";
      readonly name: OperationName;
      readonly tenant: number;
      readonly token: number;
      readonly lock: number;
      readonly run: number;
      readonly key: number | undefined;
      readonly fingerprint: number;
      readonly ttl: keyof typeof ttls;
      readonly policy: RenewalPolicy;
      readonly limit: number | undefined;
      readonly strategy: "atomic" | "lock" | undefined;
      readonly stopped: boolean;
      readonly version: number;
      readonly status: "succeeded" | "failed";
      readonly twice: boolean;
    };

/** Weighted so that grants, reservations and runs meet each other often in short sequences. */
const names: ReadonlyArray<{ weight: number; value: OperationName }> = [
  { weight: 8, value: "acquireLock" },
  { weight: 3, value: "renewLock" },
  { weight: 3, value: "releaseLock" },
  { weight: 1, value: "inspectLock" },
  { weight: 1, value: "getTenant" },
  { weight: 2, value: "setTenant" },
  { weight: 8, value: "admit" },
  { weight: 6, value: "reserve" },
  { weight: 2, value: "cancelReservation" },
  { weight: 1, value: "countActive" },
  { weight: 6, value: "createRun" },
  { weight: 2, value: "loadRun" },
  { weight: 6, value: "endRun" },
  { weight: 1, value: "listActive" },
  { weight: 2, value: "inspectReservation" },
  { weight: 1, value: "readEvents" },
];

const callArbitrary: fc.Arbitrary<Command> = fc.record({
  kind: fc.constant("call" as const),
  name: fc.oneof(...names.map(({ weight, value }) => ({ weight, arbitrary: fc.constant(value) }))),
  tenant: fc.oneof({ weight: 5, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constant(1) }),
  token: fc.nat({ max: 2 }),
  lock: fc.nat({ max: 2 }),
  run: fc.nat({ max: 3 }),
  key: fc.option(fc.nat({ max: 1 }), { nil: undefined, freq: 4 }),
  fingerprint: fc.oneof({ weight: 5, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constant(1) }),
  ttl: fc.constantFrom("short" as const, "long" as const, "long" as const),
  policy: fc.constantFrom("fence" as const, "continue" as const),
  limit: fc.option(fc.nat({ max: 2 }), { nil: undefined }),
  strategy: fc.constantFrom(undefined, undefined, undefined, "atomic" as const, "lock" as const),
  stopped: fc.oneof(
    { weight: 5, arbitrary: fc.constant(false) },
    { weight: 1, arbitrary: fc.constant(true) },
  ),
  version: fc.nat({ max: 2 }),
  status: fc.constantFrom("succeeded" as const, "failed" as const),
  twice: fc.boolean(),
});

export const sequences = fc.array(
  fc.oneof(
    { weight: 24, arbitrary: callArbitrary },
    { weight: 1, arbitrary: fc.constant({ kind: "wait" } as const) },
  ),
  { minLength: 5, maxLength: 30 },
);

/** A store under comparison. Only the first, the reference, executes every call exactly once. */
export type Candidate = { readonly name: string; readonly store: Store };

export type Verdict = { readonly kind: "same" } | { readonly kind: "too_slow" };

/** Throws on the first difference. `unique` keeps the tenants of one sequence apart from all others. */
export async function compare(
  candidates: readonly Candidate[],
  commands: readonly Command[],
  unique: string,
): Promise<Verdict> {
  const players = candidates.map((candidate, index) => new Player(candidate, unique, index > 0));
  let shortSinceMs: number | undefined;
  for (const [step, command] of commands.entries()) {
    if (command.kind === "wait") {
      await new Promise((resolve) => setTimeout(resolve, waitMs));
      shortSinceMs = undefined;
      continue;
    }
    const startedMs = performance.now();
    const outcomes: string[] = [];
    for (const player of players) outcomes.push(JSON.stringify(await player.play(command)));
    if (command.ttl === "short") shortSinceMs ??= startedMs;
    // A short ttl may have ended on one store and not yet on another: nothing follows from such a run.
    if (shortSinceMs !== undefined && performance.now() - shortSinceMs > ttls.short * 0.8)
      return { kind: "too_slow" };
    const different = outcomes.findIndex((outcome) => outcome !== outcomes[0]);
    if (different !== -1) {
      throw new Error(
        `step ${step} (${command.name}): ${candidates[0]?.name} answered ${outcomes[0]}, ` +
          `${candidates[different]?.name} answered ${outcomes[different]}`,
      );
    }
  }
  return { kind: "same" };
}

/** Plays commands on one store and puts its outcomes into a form that can be compared. */
class Player {
  readonly #candidate: Candidate;
  readonly #unique: string;
  readonly #repeats: boolean;
  readonly #fenceByToken = new Map<string, Fence>();
  /** Each tenant's fences in the order of their grants: outcomes name a grant by its place. */
  readonly #fences: readonly [number[], number[]] = [[], []];

  constructor(candidate: Candidate, unique: string, repeats: boolean) {
    this.#candidate = candidate;
    this.#unique = unique;
    this.#repeats = repeats;
  }

  async play(command: Extract<Command, { kind: "call" }>): Promise<unknown> {
    const request = this.#request(command);
    const execute = executeOn(this.#candidate.store);
    const first = this.#comparable(command, await execute(command.name, request, call));
    if (!command.twice || !this.#repeats) return first;
    const second = this.#comparable(command, await execute(command.name, request, call));
    if (JSON.stringify(first) !== JSON.stringify(second)) {
      throw new Error(
        `${command.name} repeated on ${this.#candidate.name} answered ${JSON.stringify(second)} after ${JSON.stringify(first)}`,
      );
    }
    return first;
  }

  #request(command: Extract<Command, { kind: "call" }>): RequestOf<OperationName> {
    const tenant = `t${command.tenant}-${this.#unique}` as TenantId;
    const runId = makeRunId(tenant, `run${command.run}${this.#unique}`);
    const token = `token${command.token}` as LockToken;
    const lock = lockOf(command.lock, runId);
    const guardLock = lockOf(command.name === "endRun" ? 1 : 0, runId);
    const ttlMs = ttls[command.ttl];
    const guard: Guard = {
      lock: guardLock,
      token,
      fence: this.#fenceByToken.get(grantKey(tenant, guardLock, token)) ?? (1 as Fence),
      policy: command.policy,
      ttlMs,
    };
    const asked =
      command.key === undefined ? undefined : key(`key${command.key}`, `request${command.fingerprint}`);
    const wanted = asked ?? key("key0", "request0");
    const run = runOf(runId, asked);
    const settings = {
      ...(command.limit === undefined ? {} : { maxConcurrentRuns: command.limit }),
      ...(command.strategy === undefined ? {} : { admissionStrategy: command.strategy }),
      ...(command.stopped ? { stopped: true } : {}),
    };
    const requests: { [Name in OperationName]: RequestOf<Name> } = {
      acquireLock: { tenant, lock, token, instance: "host:1", ttlMs },
      renewLock: { tenant, lock, token, ttlMs },
      releaseLock: { tenant, lock, token },
      inspectLock: { tenant, lock },
      getTenant: { tenant },
      setTenant: {
        tenant,
        settings,
        expectedVersion: command.version,
        changeId: `change${command.run}`,
        actor: "a",
      },
      admit: { tenant, run },
      reserve: { tenant, guard, runId, key: wanted },
      cancelReservation: { tenant, digest: wanted.digest, runId, token },
      countActive: { tenant },
      createRun: { tenant, guard, run },
      loadRun: { tenant, runId },
      endRun: { tenant, guard, runId, status: command.status, actor: "e", keyRetentionMs: ttls.long },
      listActive: { tenant, limit: 10 },
      inspectReservation: { tenant, digest: wanted.digest },
      readEvents: { tenant, after: command.version, limit: 5 },
    };
    return requests[command.name];
  }

  #comparable(command: Extract<Command, { kind: "call" }>, answer: object): unknown {
    const { fence } = answer as { fence?: Fence };
    if (command.name === "acquireLock" && fence !== undefined) this.#learnFence(command, fence);
    return JSON.parse(JSON.stringify(answer), (name, value) => {
      if (timeFields.has(name)) return undefined;
      if (name === "fence" || name === "endedByFence")
        return `grant ${this.#fencesOf(command).indexOf(value)}`;
      if (name === "expiresInMs" || name === "freeInMs") return value > 1_000 ? "long" : "short";
      return value;
    });
  }

  #learnFence(command: Extract<Command, { kind: "call" }>, fence: Fence): void {
    const tenant = `t${command.tenant}-${this.#unique}` as TenantId;
    const lock = lockOf(command.lock, makeRunId(tenant, `run${command.run}${this.#unique}`));
    this.#fenceByToken.set(grantKey(tenant, lock, `token${command.token}`), fence);
    const fences = this.#fencesOf(command);
    if (fences.includes(fence)) return;
    if (fences.some((earlier) => earlier > fence)) {
      throw new Error(`${this.#candidate.name} granted fence ${fence} after a larger one`);
    }
    fences.push(fence);
  }

  #fencesOf(command: Extract<Command, { kind: "call" }>): number[] {
    return command.tenant === 0 ? this.#fences[0] : this.#fences[1];
  }
}

const timeFields = new Set(["storeTimeMs", "admittedAtMs", "endedAtMs", "atMs"]);

function lockOf(choice: number, runId: RunId): LockName {
  if (choice === 0) return { namespace: "admission", name: "" };
  return choice === 1 ? { namespace: "run", name: runId } : { namespace: "public", name: "a:b %{}" };
}

function grantKey(tenant: string, lock: LockName, token: string): string {
  return `${tenant} ${lock.namespace} ${lock.name} ${token}`;
}

function runOf(runId: RunId, asked: ReturnType<typeof key> | undefined) {
  const run = { runId, workflow: "w", actor: "a", records: [{ key: "step/1", body: '{"a":[]}' }] };
  return asked === undefined ? run : { ...run, key: asked };
}
