// What a handler gets and gives: typed by its row of the routes table, so that it can answer only what the row declares.
import type { BodyOf, eventStreamType, ParamsOf, QueryOf, SharedCode, SuccessOf } from "../api/route.ts";
import type { Operation, RouteOf } from "../api/routes.ts";
import type { Config } from "../config.ts";
import type { Caller, Trouble } from "../control/caller.ts";
import type { Computing } from "../control/computing.ts";
import type { ControlApi } from "../control/create-api.ts";
import { type ApiKeyRecord, isPlatformKey, type KeyRole, personOf } from "../domain/api-key.ts";
import type { TenantId } from "../domain/tenant.ts";
import type { ErrorCode } from "../errors.ts";
import type { Ports, Span } from "../ports/ports.ts";
import type { EventSink } from "./event-stream.ts";

/** Everything that handlers share. */
export type Service = {
  readonly api: ControlApi;
  readonly ports: Pick<Ports, "clock" | "random" | "log" | "metrics" | "tracer" | "instance">;
  readonly config: Config;
  readonly version: string;
  metricsText(): Promise<string> | string;
  isDraining(): boolean;
  readonly computing: Computing;
  /** The event loop is late, and this tenant has used at least its share of it. */
  sheds(tenant: TenantId): boolean;
};

export type RequestHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

export type Asked<Name extends Operation> = {
  readonly params: ParamsOf<RouteOf<Name>>;
  readonly query: QueryOf<RouteOf<Name>>;
  readonly body: BodyOf<RouteOf<Name>>;
  readonly headers: RequestHeaders;
  readonly key: RouteOf<Name>["access"] extends readonly KeyRole[] ? ApiKeyRecord : undefined;
  /** Of this request, if spans are recorded and the operation has one. */
  readonly span: Span | undefined;
  /** What the work that this request begins belongs to. */
  traceparent(): string | undefined;
  /** Aborts when the caller goes away, and when the server stops waiting. Made when it is asked for. */
  signal(): AbortSignal;
};

/** An answer whose kind is an error code: its row of `errors` says what the reply shows of it. */
export type Failure<Code extends ErrorCode = ErrorCode> = {
  readonly kind: Code;
  /** Told to the caller instead of the remedy. */
  readonly detail?: string;
  /** For the log alone: it may name servers. */
  readonly cause?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly retryAfterSeconds?: number;
  readonly [member: string]: unknown;
};

type CodeOf<Name extends Operation> = RouteOf<Name>["errors"][number] | SharedCode;

/** Sends events until there are no more, the connection is closed, or `stopping` aborts. */
export type Streaming = (sink: EventSink, stopping: AbortSignal) => Promise<void>;
export type Streamed = { readonly status: 200; readonly stream: Streaming };

export type Reply<Name extends Operation> =
  | SuccessOf<RouteOf<Name>>
  | (RouteOf<Name> extends { readonly mediaType: typeof eventStreamType } ? Streamed : never)
  | Failure<CodeOf<Name>>
  | TroubleOf<Name>;

/** The store did not answer. A read has no effect: it does not matter whether it happened. */
type TroubleOf<Name extends Operation> = RouteOf<Name>["method"] extends "GET"
  ? Trouble
  : "effect_unknown" extends CodeOf<Name>
    ? Trouble
    : Extract<Trouble, { kind: "unavailable" }>;

type Handler<Name extends Operation> = (
  service: Service,
  asked: Asked<Name>,
) => Reply<Name> | Promise<Reply<Name>>;

/** One per operation: a missing one does not compile. */
export type Handlers = { readonly [Name in Operation]: Handler<Name> };

/** The key stands for its user: in records, in rows, and in the store's own check for revoked ones. */
export function callerOf(key: ApiKeyRecord): Caller {
  const { tenant, keyId, role, createdBy, maxPriority } = key;
  const person = personOf(key);
  const decider = { owner: person.owner, role, madeBy: person.lineage[0] ?? createdBy };
  const caller = { tenant, actor: keyId, credential: keyId, person, decider };
  return maxPriority === undefined ? caller : { ...caller, priorityMax: maxPriority };
}

/** A store that did not answer has no code of its own: a read has no effect, so that it does not matter whether it happened. */
export function failureIn(answer: Failure | Trouble, effect: "read" | "write"): Failure {
  if (answer.kind === "unavailable") return readingTrouble(answer);
  if (answer.kind !== "unknown") return answer;
  return effect === "read" ? readingTrouble(answer) : { kind: "effect_unknown", cause: answer.cause };
}

export function readingTrouble({ cause }: Trouble): Failure<"store_unavailable"> {
  return { kind: "store_unavailable", cause };
}

/** Only a platform key may choose; another key's tenant was already compared with what the request names. */
export function tenantAskedAbout(key: ApiKeyRecord, named: string | undefined): TenantId {
  return isPlatformKey(key) && named !== undefined ? (named as TenantId) : key.tenant;
}
