// Which requests may be sent again when it is not known whether the first try was done.
import type { Operation, ProblemCode } from "./contract.ts";
import { operations } from "./operations.ts";

type Asked = {
  readonly query?: Readonly<Record<string, unknown>> | undefined;
  readonly body?: unknown;
  readonly idempotencyKey?: string | undefined;
};

/** What a POST or PATCH is recognised by when it comes again; operations that are not named here are sent once. */
const identities: { readonly [Name in Operation]?: (asked: Asked) => boolean } = {
  saveWorkflow: always,
  validateWorkflow: always,
  dryRunWorkflow: always,
  startRun: hasKey,
  rerunRun: hasKey,
  cancelRun: always,
  cancelRunOfWorkflow: always,
  pollJobs: always,
  heartbeat: always,
  reportResults: always,
  approve: always,
  reject: always,
  retryDeadLetter: always,
  purgeDeadLetters: always,
  acquireLock: hasToken,
  renewLock: always,
  releaseLock: always,
  breakLock: always,
  changeTenant: namesNoVersion,
  changePool: always,
  drainPool: always,
};

/** True when sending the request twice does no more than sending it once. */
export function isRepeatable(operation: Operation, asked: Asked): boolean {
  const { method } = operations[operation];
  if (method === "GET" || method === "PUT" || method === "DELETE") return true;
  return identities[operation]?.(asked) ?? false;
}

/** Refusals that are the answer to the question asked, although another question later may be answered otherwise. */
const answers: { readonly [Name in Operation]?: readonly ProblemCode[] } = {
  // The token of a refused acquire is spent; waiting for the lock is what `wait_ms` is for.
  acquireLock: ["lock_unavailable"],
  // The version that the change names will not come back.
  changeTenant: ["version_conflict"],
};

export function isAnswer(operation: Operation, code: ProblemCode): boolean {
  return answers[operation]?.includes(code) ?? false;
}

/** Starts that are bound to a key: it is made once per call and reused over all its tries. */
export function takesKey(operation: Operation): boolean {
  return operation === "startRun" || operation === "rerunRun";
}

function always(): boolean {
  return true;
}

function hasKey({ idempotencyKey }: Asked): boolean {
  return idempotencyKey !== undefined;
}

function hasToken({ body }: Asked): boolean {
  return typeof body === "object" && body !== null && "token" in body;
}

function namesNoVersion({ body }: Asked): boolean {
  return typeof body === "object" && body !== null && !("expected_version" in body);
}
