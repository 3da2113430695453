// Fences: the header fields that carry one, where the newest of each resource is kept, and the guard that refuses older ones with 412.
import type { Caller } from "./caller.ts";
import { InterlockApiError, InterlockConnectionError } from "./client-errors.ts";

export const fenceField = "interlock-fence";
const resourceField = "interlock-fence-resource";
const jobField = "interlock-job";

type FencedCall = {
  /** What only the newest holder may touch. */
  readonly resource: string;
  readonly fence: number;
  /** The attempt, if it is a job's: a guard of the resource may ask whether it is still the current one. */
  readonly job?: string | undefined;
};

export function fenceHeaders({ resource, fence, job }: FencedCall): Readonly<Record<string, string>> {
  return {
    [fenceField]: String(fence),
    [resourceField]: encoded(resource),
    ...(job === undefined ? {} : { [jobField]: encoded(job) }),
  };
}

/** Names may hold letters of any script, header fields may not: what is not visible ASCII is percent-encoded. */
function encoded(name: string): string {
  return name.replaceAll(/[^\x21-\x24\x26-\x7e]+/gu, (text) => encodeURIComponent(text));
}

/** Undefined when it is not what `fenceHeaders` writes. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

export type FenceStore = {
  /**
   * One atomic step: compares with the highest fence seen of the resource, and remembers this one if it is not lower.
   * `superseded` when it is lower. The same fence is admitted again: one attempt may call many times. In SQL:
   *
   *     INSERT INTO fences (resource, fence) VALUES ($1, $2)
   *     ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence WHERE fences.fence <= excluded.fence
   *
   * One row changed is `admitted`, none is `superseded`. In the transaction of the write that it protects, nothing can come
   * between the two.
   */
  admit(resource: string, fence: number): Promise<FenceVerdict> | FenceVerdict;
};

export type FenceVerdict = "admitted" | "superseded";

/**
 * For one process that may forget: a restart begins anew, and of more than `resourcesMax` resources (100,000) the one that
 * was called for longest ago is forgotten.
 */
export function memoryFenceStore({ resourcesMax = 100_000 } = {}): {
  admit(resource: string, fence: number): FenceVerdict;
} {
  const highest = new Map<string, number>();
  return {
    admit(resource, fence) {
      const known = highest.get(resource);
      if (known !== undefined && fence < known) return "superseded";
      // The map keeps the order of insertion: what was called for last stands last.
      highest.delete(resource);
      highest.set(resource, fence);
      if (highest.size > resourcesMax) {
        const [oldest] = highest.keys();
        if (oldest !== undefined) highest.delete(oldest);
      }
      return "admitted";
    },
  };
}

export type FenceGuardOptions = {
  /** In memory by default; give one of your own to keep fences where the data is. */
  readonly store?: FenceStore | undefined;
  /** Calls without the header fields: refused with 400 by default, or let `through`. Malformed ones are always refused. */
  readonly missing?: "refuse" | "through" | undefined;
  /**
   * Asks whether the attempt is still the current one, and so refuses a stale one also before its successor has called.
   * `confirmWith(client)` asks Interlock.
   */
  readonly confirm?: ((call: FencedRequest) => Promise<Confirmation>) | undefined;
};

export type FencedRequest = {
  readonly resource: string;
  readonly fence: number;
  /** The attempt's job, when the caller is a worker. */
  readonly job: string | undefined;
};

/** `unknown` refuses the call with 503: it may be repeated. */
export type Confirmation = "current" | "superseded" | "unknown";

export type FenceRefusal = {
  readonly status: 400 | 412 | 503;
  /** RFC 9457 problem JSON. */
  readonly problem: Readonly<Record<string, unknown>>;
};

/** As Node gives them: in lower case. */
type HeaderFields = Readonly<Record<string, string | readonly string[] | undefined>>;

type ExpressRequest = { readonly headers: HeaderFields };
type ExpressResponse = {
  statusCode: number;
  setHeader(name: string, value: string): unknown;
  end(text: string): unknown;
};
type FastifyReply = {
  code(status: number): unknown;
  header(name: string, value: string): unknown;
  send(body: string): unknown;
};

export type FenceGuard = {
  /** Undefined lets the call through. For servers of other kinds. */
  judge(headers: HeaderFields): Promise<FenceRefusal | undefined>;
  /** `app.use(guard.express)`: Express, Connect and whatever takes `(request, response, next)`. */
  express(request: ExpressRequest, response: ExpressResponse, next: (error?: unknown) => void): void;
  /** `app.addHook("onRequest", guard.fastify)`, or as `preHandler` of one route. */
  fastify(request: ExpressRequest, reply: FastifyReply): Promise<unknown>;
};

export function fenceGuard(options: FenceGuardOptions = {}): FenceGuard {
  const { store = memoryFenceStore(), missing = "refuse", confirm } = options;

  async function judge(headers: HeaderFields): Promise<FenceRefusal | undefined> {
    const read = readFence(headers);
    if (read.kind === "missing") return missing === "through" ? undefined : malformed(read.why);
    if (read.kind === "malformed") return malformed(read.why);
    const { call } = read;
    const confirmation = (await confirm?.(call)) ?? "current";
    if (confirmation === "unknown") return unconfirmed(call);
    // Last, so that as little time as possible lies between the verdict and the effect.
    const verdict =
      confirmation === "superseded" ? confirmation : await store.admit(call.resource, call.fence);
    return verdict === "admitted" ? undefined : superseded(call);
  }

  return {
    judge,
    express(request, response, next) {
      judge(request.headers).then((refusal) => {
        if (refusal === undefined) return next();
        response.statusCode = refusal.status;
        for (const [name, value] of fieldsOf(refusal)) response.setHeader(name, value);
        response.end(JSON.stringify(refusal.problem));
      }, next);
    },
    async fastify(request, reply) {
      const refusal = await judge(request.headers);
      if (refusal === undefined) return undefined;
      reply.code(refusal.status);
      for (const [name, value] of fieldsOf(refusal)) reply.header(name, value);
      reply.send(JSON.stringify(refusal.problem));
      return reply;
    },
  };
}

/** By the state of the job: an attempt is current while it is claimed. Needs a key that may read jobs, such as a worker's. */
export function confirmWith(client: Pick<Caller, "call">): (call: FencedRequest) => Promise<Confirmation> {
  return async ({ job }) => {
    if (job === undefined) return "current";
    try {
      const { state } = await client.call("getJob", {
        params: { id: job },
        retry: { attemptsMax: 1 },
        timeoutMs: 2_000,
      });
      return state === "claimed" ? "current" : "superseded";
    } catch (error) {
      if (error instanceof InterlockApiError && error.status === 404) return "superseded";
      if (error instanceof InterlockConnectionError || error instanceof InterlockApiError) return "unknown";
      throw error;
    }
  };
}

type FenceReading =
  | { readonly kind: "call"; readonly call: FencedRequest }
  | { readonly kind: "missing"; readonly why: string }
  | { readonly kind: "malformed"; readonly why: string };

const nameLengthMax = 1_024;

function readFence(headers: HeaderFields): FenceReading {
  const [fence, resource, job] = [headers[fenceField], headers[resourceField], headers[jobField]];
  if (fence === undefined && resource === undefined) {
    return { kind: "missing", why: "Interlock-Fence and Interlock-Fence-Resource are missing" };
  }
  if (typeof fence !== "string" || !/^[1-9]\d{0,15}$/.test(fence) || !Number.isSafeInteger(Number(fence))) {
    return { kind: "malformed", why: "Interlock-Fence must be one whole number" };
  }
  const name = nameIn(resource);
  if (name === undefined) return { kind: "malformed", why: "Interlock-Fence-Resource must be one name" };
  const jobId = job === undefined ? undefined : nameIn(job);
  if (job !== undefined && jobId === undefined)
    return { kind: "malformed", why: "Interlock-Job must be one id" };
  return { kind: "call", call: { resource: name, fence: Number(fence), job: jobId } };
}

function nameIn(field: string | readonly string[] | undefined): string | undefined {
  const name = typeof field === "string" ? decoded(field) : undefined;
  return name === undefined || name === "" || name.length > nameLengthMax ? undefined : name;
}

function malformed(detail: string): FenceRefusal {
  return {
    status: 400,
    problem: problem(400, { code: "fence_required", title: "the call carries no fence", detail }),
  };
}

function superseded({ resource, fence }: FencedRequest): FenceRefusal {
  const detail = "A newer attempt or holder has taken over: stop this work.";
  const title = "superseded: the fence is not the newest";
  return {
    status: 412,
    problem: { ...problem(412, { code: "fence_superseded", title, detail }), resource, fence },
  };
}

function unconfirmed({ resource, fence }: FencedRequest): FenceRefusal {
  const detail = "It could not be asked whether the attempt is still the current one: repeat the call.";
  const title = "the fence could not be confirmed";
  return {
    status: 503,
    problem: { ...problem(503, { code: "fence_unconfirmed", title, detail }), resource, fence },
  };
}

function problem(
  status: number,
  { code, title, detail }: { readonly code: string; readonly title: string; readonly detail: string },
) {
  return { type: `urn:interlock:error:${code}`, title, status, detail, code, retryable: status === 503 };
}

function fieldsOf({ status }: FenceRefusal): ReadonlyArray<readonly [string, string]> {
  const type = ["content-type", "application/problem+json"] as const;
  return status === 503 ? [type, ["retry-after", "1"]] : [type];
}
