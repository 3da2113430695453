// How the SDK of an agent reaches gateways in the simulation: their own handlers, over a network that loses requests and answers.
import type { ApiKeyRecord } from "../../../src/domain/api-key.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import { errors } from "../../../src/errors.ts";
import type { Service } from "../../../src/gateway/handler.ts";
import { lockHandlers } from "../../../src/gateway/handlers/lock-handlers.ts";
import type { Caller } from "../../../src/sdk/caller.ts";
import { InterlockApiError, InterlockConnectionError } from "../../../src/sdk/client-errors.ts";
import type { Runtime } from "../../../src/sdk/runtime.ts";
import type { SimulatedProcess } from "../../../src/testing/simulated-process.ts";
import type { EngineNode } from "../engine-node.ts";
import type { World } from "../world.ts";
import { callRemotely } from "./remote-call.ts";

type LockOperation = "acquireLock" | "renewLock" | "releaseLock";
type Body = Readonly<Record<string, string | number>>;
type Options = { readonly body: Body; readonly timeoutMs?: number };

/** Besides what a request itself waits for. */
const answerWithinMs = 2_000;
/** A release that gets no answer is repeated, as the SDK's own line does. */
const releaseTries = 3;

export function agentCaller(
  world: World,
  process: SimulatedProcess,
  key: { readonly tenant: TenantId; readonly keyId: string },
): Caller {
  const random = process.random.stream("line");
  const once = async (operation: LockOperation, { body, timeoutMs = answerWithinMs }: Options) => {
    const gateway = random.pick(world.gateways);
    const aborted = new AbortController();
    const withinMs = timeoutMs + Number(body.wait_ms ?? 0);
    const reply = await callRemotely(world, process, gateway, withinMs, () =>
      handle(gateway, operation, { body, key, signal: aborted.signal }),
    );
    if (!("kind" in reply)) return readReply(operation, reply);
    // The connection is gone: the gateway may notice.
    if (random.chance(0.5)) gateway.process.deliver(random.integer(1, 200), () => aborted.abort());
    throw new InterlockConnectionError({
      asked: operation,
      url: "simulated",
      reason: "timeout",
      what: "no answer",
    });
  };
  const call = async (operation: LockOperation, options: Options) => {
    for (let tries = 1; ; tries += 1) {
      try {
        return await once(operation, options);
      } catch (error) {
        const mayRepeat = operation === "releaseLock" && error instanceof InterlockConnectionError;
        if (!mayRepeat || tries >= releaseTries) throw error;
      }
    }
  };
  return { url: "simulated", call } as unknown as Caller;
}

export function agentRuntime(process: SimulatedProcess): Runtime {
  const { clock, random } = process;
  return {
    now: () => ({ monotonicMs: clock.monotonicMs(), wallMs: clock.wallMs() }),
    sleep: (ms, signal) => clock.sleep(ms, signal),
    timer: (ms, callback) => clock.timer(ms, callback),
    fraction: () => random.stream("sdk").fraction(),
    token: () => random.stream("sdk").token(),
    environment: () => undefined,
    processName: () => process.name,
    warn: () => {},
    onStopSignal: () => () => {},
  };
}

type Request = {
  readonly body: Body;
  readonly key: { readonly tenant: TenantId; readonly keyId: string };
  readonly signal: AbortSignal;
};

type Reply = {
  readonly body?: unknown;
  readonly code?: keyof typeof errors;
  readonly more?: Readonly<Record<string, unknown>>;
};

/** What the gateway has read and authenticated by then. */
function handle(
  gateway: EngineNode,
  operation: LockOperation,
  { body, key, signal }: Request,
): Promise<Reply> {
  const { api, config } = gateway;
  const service = { api, config, ports: gateway.ports(), isDraining: () => false } as unknown as Service;
  const record = { ...key, role: "operator" } as unknown as ApiKeyRecord;
  const asked = { body: { wait: "queue", ...body }, key: record, signal: () => signal };
  return lockHandlers[operation](service, asked as never) as Promise<Reply>;
}

function readReply(operation: LockOperation, { body, code, more = {} }: Reply): unknown {
  if (code === undefined) return body;
  const { status, retryable, message, remedy } = errors[code];
  const problem = { status, code, title: message, detail: remedy, retryable, ...more };
  const isUnknown = more.outcome === "unknown" || code.endsWith("_unknown") || code === "request_cancelled";
  const seen = { asked: operation, retryAfterMs: undefined, requestId: undefined };
  throw new InterlockApiError(problem, { ...seen, effect: isUnknown ? "unknown" : "none" });
}
