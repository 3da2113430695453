// The owners of one lock, in the order of their grants, as the store sees them; and what a drill does to their calls.
import type { LockNamespace } from "../../domain/lock.ts";
import type { Answer, Execute, OperationName, RequestOf } from "../../ports/store.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { Inside } from "../target/target.ts";

/** One grant. Times are of the monotonic clock; the ttl cannot have begun before the request was sent. */
export type Owner = {
  readonly token: string;
  readonly fence: number;
  readonly sentMs: number;
  readonly grantedMs: number;
};

/** What an owner asks of the store under its grant. */
export type OwnerCall = {
  readonly step: "renew" | "write" | "release";
  /** 0 is the first owner. */
  readonly owner: number;
  /** What the store said, once it has. */
  answered?: { readonly kind: string; readonly atMs: number };
};

export type LockOwners = {
  readonly owners: readonly Owner[];
  readonly calls: readonly OwnerCall[];
  stop(): void;
};

/** The only lock of its kind in a tenant of the drill's own. */
type WatchedLock = { readonly tenant: string; readonly namespace: Extract<LockNamespace, "run" | "job"> };

/** `lost`: the store never sees the call. May take as long as it likes, and is told how long the caller waits for an answer. */
type Disturb = (call: OwnerCall, deadlineMs: number) => Promise<"pass" | "lost">;

export function watchOwners(inside: Inside, lock: WatchedLock, disturb: Disturb): LockOwners {
  const nowMs = () => runtime.now().monotonicMs;
  const owners: Owner[] = [];
  const calls: OwnerCall[] = [];
  const disturbed =
    (next: Execute): Execute =>
    async (name, request, options) => {
      const touched = touching(name, request, lock);
      if (touched === undefined) return next(name, request, options);
      const { step, token } = touched;
      if (step === "take") {
        const sentMs = nowMs();
        const answer = await next(name, request, options);
        const fence = grantedFence(answer);
        // A repeat of the same request confirms the same grant.
        if (fence !== undefined && !owners.some((owner) => owner.token === token))
          owners.push({ token, fence, sentMs, grantedMs: nowMs() });
        return answer;
      }
      const call: OwnerCall = { step, owner: owners.findIndex((owner) => owner.token === token) };
      calls.push(call);
      if ((await disturb(call, options.deadlineMs)) === "lost")
        return { kind: "unknown", cause: "the drill lets no call through", notAfterMs: 0 };
      const answer = await next(name, request, options);
      call.answered = { kind: answer.kind, atMs: nowMs() };
      return answer;
    };
  return { owners, calls, stop: inside.disturbStore(disturbed) };
}

type Touching = { readonly step: OwnerCall["step"] | "take"; readonly token: string };

/** Undefined when the call has nothing to do with such a lock. */
function touching<Name extends OperationName>(
  name: Name,
  request: RequestOf<Name>,
  { tenant, namespace }: WatchedLock,
): Touching | undefined {
  if ((request as { readonly tenant?: string }).tenant !== tenant) return undefined;
  if (name === "acquireLock" || name === "renewLock" || name === "releaseLock") {
    const { lock, token } = request as RequestOf<"renewLock">;
    return lock.namespace === namespace
      ? { step: lockSteps[name as keyof typeof lockSteps], token }
      : undefined;
  }
  if (namespace === "run" && (name === "deliver" || name === "takeRun"))
    return { step: "take", token: (request as RequestOf<"takeRun">).take.token };
  if (namespace === "run" && name === "commit")
    return { step: "write", token: (request as RequestOf<"commit">).guard.token };
  if (namespace !== "job" || name !== "deliver") return undefined;
  const { entry } = request as RequestOf<"deliver">;
  return entry.kind === "dispatch" ? { step: "write", token: entry.guard.token } : undefined;
}

const lockSteps = { acquireLock: "take", renewLock: "renew", releaseLock: "release" } as const;

function grantedFence(answer: Answer<OperationName>): number | undefined {
  if (answer.kind === "acquired" || answer.kind === "owned") return answer.fence;
  return answer.kind === "delivered" && answer.run.kind === "owned" ? answer.run.fence : undefined;
}
