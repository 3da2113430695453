// The types of every operation, from the routes table: nothing of it is left when the program runs.
import type * as z from "zod";
import type { ParamsOf, Route, SuccessOf } from "../api/route.ts";
import type { Operation, RouteOf } from "../api/routes.ts";
import type { ErrorCode } from "../errors.ts";

export type { Operation };

/** The codes of this version; a newer server may answer with others. */
export type ProblemCode = ErrorCode | (string & Record<never, never>);

/** The two operations whose answer is a stream of events. */
export type StreamOperation = {
  [Name in Operation]: RouteOf<Name> extends { readonly mediaType: "text/event-stream" } ? Name : never;
}[Operation];

export type CallOperation = Exclude<Operation, StreamOperation>;

export type Params<Name extends Operation> = ParamsOf<RouteOf<Name>>;

/** Numbers in a query may be given as numbers. */
type QueryInput<Schema extends z.ZodType> = {
  [Field in keyof z.input<Schema>]:
    | z.input<Schema>[Field]
    | (Field extends keyof z.output<Schema> ? z.output<Schema>[Field] : never);
};

export type Query<Name extends Operation> =
  RouteOf<Name> extends { readonly query: infer Schema extends z.ZodType }
    ? QueryInput<Schema>
    : Record<never, never>;

export type Body<Name extends Operation> =
  RouteOf<Name> extends { readonly body: infer Schema extends z.ZodType } ? z.input<Schema> : undefined;

/** What the operation answers when it succeeds. */
export type Success<Name extends Operation> =
  RouteOf<Name> extends infer Row extends Route ? SuccessOf<Row>["body"] : never;

export type Common = {
  readonly headers?: Readonly<Record<string, string>>;
  /** Ends the call; it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
};

type Optional<Name extends string, Value> = { readonly [Key in Name]?: Value };
type Required<Name extends string, Value> = { readonly [Key in Name]: Value };

type WithParams<Name extends Operation> = keyof Params<Name> extends never
  ? Optional<"params", Record<never, never>>
  : Required<"params", Params<Name>>;

type WithQuery<Name extends Operation> =
  Record<never, never> extends Query<Name> ? Optional<"query", Query<Name>> : Required<"query", Query<Name>>;

type WithBody<Name extends Operation> =
  Record<never, never> extends Body<Name>
    ? Optional<"body", Body<Name>>
    : undefined extends Body<Name>
      ? Optional<"body", undefined>
      : Required<"body", Body<Name>>;

export type CallOptions<Name extends Operation> = WithParams<Name> &
  WithQuery<Name> &
  WithBody<Name> &
  Common & {
    /** Names what is asked for, so that it is done once however often it is sent. Made per call when it is not given. */
    readonly idempotencyKey?: string | undefined;
    /** Of a body that is sent as the text it is: `application/yaml`. JSON otherwise. */
    readonly mediaType?: string | undefined;
    /** Other limits than the client's, for this call. */
    readonly retry?: Partial<RetryLimits> | undefined;
    readonly timeoutMs?: number | undefined;
  };

export type StreamOptions<Name extends StreamOperation> = WithParams<Name> &
  WithQuery<Name> &
  Common & { readonly lastEventId?: string | undefined };

export type RetryLimits = {
  /** From the first try on; no try begins after it. */
  readonly budgetMs: number;
  readonly attemptsMax: number;
};

/** Left out where nothing has to be given. */
export type Arguments<Options> =
  Record<never, never> extends Options ? [options?: Options] : [options: Options];

export type Answer<Name extends Operation> = {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Success<Name>;
};
