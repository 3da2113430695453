// Makes the requests: valid ones from the document, the same with one thing wrong, and hostile ones. All of it follows from the seed.
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { definitionFor } from "./definitions.ts";
import { hostileBody, hostileCursor, hostileTexts } from "./hostile.ts";
import { type Knowledge, kindOfParameter } from "./knowledge.ts";
import { type Mutation, mutationsOf } from "./mutations.ts";
import { type FuzzOperation, type Parameter, pathOf } from "./operations.ts";
import type { FuzzRequest } from "./request.ts";
import { placesIn, type Source, valueFor, withValueAt } from "./values.ts";

export const manners = ["valid", "mutated", "hostile"] as const;
export type Manner = (typeof manners)[number];

/** The texts of the keys that the client has, by who they are of. */
export type ClientKeys = {
  readonly ofRole: (role: string) => string;
  /** Of another tenant, revoked, mistyped. */
  readonly others: readonly string[];
};

export type Client = { readonly knowledge: Knowledge; readonly keys: ClientKeys };

/** A request before it is spelt. */
export type Draft = {
  readonly how: string;
  readonly method: string;
  readonly params: Readonly<Record<string, string>>;
  /** Names and values as they are to be sent, escaped already. */
  readonly query: ReadonlyArray<readonly [string, string]>;
  readonly headers: Readonly<Record<string, string>>;
  readonly key: string | undefined;
  readonly body: unknown;
  /** Sent instead of the body. */
  readonly bytes?: Buffer;
  /** Sent instead of the path. */
  readonly path?: string;
  readonly isRouted: boolean;
};

export function requestFor(
  client: Client,
  random: SeededRandom,
  operation: FuzzOperation,
  manner: Manner,
): FuzzRequest {
  const source = { random, knowledge: client.knowledge };
  const valid = validDraft(client, source, operation);
  return spelt(operation, redrafted(client, source, operation, valid, manner));
}

function redrafted(
  client: Client,
  source: Source,
  operation: FuzzOperation,
  valid: Draft,
  manner: Manner,
): Draft {
  switch (manner) {
    case "valid":
      return valid;
    case "mutated": {
      const mutation: Mutation = source.random.pick(mutationsOf(operation, valid));
      return mutation({ client, source, operation, draft: valid });
    }
    case "hostile":
      return source.random.pick(hostilities(operation))(source, operation, valid);
  }
}

export function validDraft({ keys, knowledge }: Client, source: Source, operation: FuzzOperation): Draft {
  const { random } = source;
  const { path, parameters, method } = operation;
  const inPath = parameters.filter((parameter) => parameter.in === "path");
  const drawn = Object.fromEntries(
    inPath.map(({ name }) => [
      name,
      knowledge.recall(kindOfParameter(path, name), random) ?? `unknown-${random.integer(0, 9)}`,
    ]),
  );
  const params = { ...drawn, ...(random.chance(0.7) ? paramsTogether(source, operation.name) : {}) };
  const role = operation.roles.length === 0 ? "platform" : random.pick(operation.roles);
  return {
    how: "valid",
    method,
    params,
    query: chosen(parameters, "query", random).map(({ name, schema }) => [
      name,
      encodeURIComponent(String(valueFor(source, schema, name))),
    ]),
    headers: headersFor(source, chosen(parameters, "header", random)),
    key: operation.needsKey ? keys.ofRole(role) : undefined,
    body: bodyFor(source, operation, params),
    isRouted: true,
  };
}

/** Names in one path that belong together. */
function paramsTogether({ random, knowledge }: Source, operation: string): Record<string, string> {
  if (operation === "cancelRunOfWorkflow")
    return { id: "simple", run_id: knowledge.recall("simpleRun", random) ?? "unknown" };
  if (operation === "listItems")
    return { id: knowledge.recall("listRun", random) ?? "unknown", step_id: "one" };
  return {};
}

function chosen(
  parameters: readonly Parameter[],
  place: Parameter["in"],
  random: SeededRandom,
): readonly Parameter[] {
  // A list mostly read from its start shows more than one that is refused for its cursor.
  const probability = (name: string) => (name === "cursor" ? 0.15 : 0.4);
  return parameters.filter(
    (parameter) =>
      parameter.in === place && (parameter.required || random.chance(probability(parameter.name))),
  );
}

function headersFor({ random }: Source, parameters: readonly Parameter[]): Record<string, string> {
  const texts: Readonly<Record<string, () => string>> = {
    "Idempotency-Key": () => `k-${random.integer(0, 30)}`,
    "Last-Event-ID": () => String(random.integer(0, 50)),
  };
  return Object.fromEntries(parameters.map(({ name }) => [name.toLowerCase(), texts[name]?.() ?? "x"]));
}

/** What belongs together is brought together: a claim and its token, a lock and its own, a decision and what was shown. */
function bodyFor(source: Source, operation: FuzzOperation, params: Draft["params"]): unknown {
  const { random, knowledge } = source;
  const { body: schema, name } = operation;
  if (schema === undefined) return undefined;
  if (name === "saveWorkflow" || name === "validateWorkflow") return definitionFor(random);
  if (name === "startRun") return { order: `o-${random.integer(0, 99)}`, amount: random.integer(1, 200) };
  const body = valueFor(source, schema) as Record<string, unknown>;
  if (!random.chance(0.8)) return body;
  const claim = knowledge.claims.length === 0 ? undefined : random.pick(knowledge.claims);
  const grant = knowledge.grants.length === 0 ? undefined : random.pick(knowledge.grants);
  switch (name) {
    case "heartbeat":
    case "reportResults": {
      if (claim === undefined) return body;
      const { worker_id, ...claimed } = claim;
      const list = name === "heartbeat" ? "jobs" : "results";
      const [first] = body[list] as object[];
      const { job_id, claim_token } = claimed;
      return { ...body, worker_id, [list]: [{ ...first, job_id, claim_token }] };
    }
    case "renewLock":
    case "releaseLock":
      return grant === undefined ? body : { ...body, resource: grant.resource, token: grant.token };
    case "breakLock":
      if (grant === undefined) return body;
      return { ...body, tenant: "acme", namespace: "public", name: grant.resource, fence: grant.fence };
    case "pollJobs":
      return { ...body, worker_id: "w-fuzz", poll_id: `p-${random.integer(0, 1_000_000)}` };
    case "changeTenant":
      return params.id === "acme" ? { separate_duties: random.chance(0.5) } : body;
    case "approve":
    case "reject":
      return { reason: "seen" };
    case "rerunRun":
      return { ...body, from_step: "one" };
    case "startCanary":
      // Most policies cannot be tried together, and some not at all.
      return { ...body, policies: { "results.strategy": random.pick(["handoff", "retry"]) } };
    default:
      return body;
  }
}

type Hostility = (source: Source, operation: FuzzOperation, draft: Draft) => Draft;

/** Those that the operation has a place for. */
function hostilities({ parameters, body }: FuzzOperation): readonly Hostility[] {
  return [
    hostileTarget,
    ...(parameters.some((parameter) => parameter.in === "path") ? [hostileParam, hostileParam] : []),
    ...(parameters.some((parameter) => parameter.in === "query") ? [hostileQuery] : []),
    ...(parameters.some(({ name }) => name === "cursor") ? [hostileCursors, hostileCursors] : []),
    ...(body === undefined ? [hostileHeader] : [hostileWords, hostileBytes, hostileBytes, hostileHeader]),
  ];
}

const hostileParam: Hostility = ({ random }, _operation, draft) => {
  const name = random.pick(Object.keys(draft.params));
  const text = random.pick(hostileTexts);
  return {
    ...draft,
    how: `hostile ${name}`,
    params: { ...draft.params, [name]: text },
    // No part of a path is empty or as long as that: nobody is asked then.
    isRouted: text !== "" && Buffer.byteLength(text) < 1_000 && draft.isRouted,
  };
};

const hostileQuery: Hostility = ({ random }, { parameters }, draft) => {
  const { name } = random.pick(parameters.filter((parameter) => parameter.in === "query"));
  const value = encodeURIComponent(random.pick(hostileTexts));
  return { ...draft, how: `hostile ${name}`, query: [...draft.query, [name, value]] };
};

const hostileCursors: Hostility = ({ random }, { name }, draft) => ({
  ...draft,
  how: "a cursor made up",
  query: [...draft.query.filter(([each]) => each !== "cursor"), ["cursor", hostileCursor(random, name)]],
});

const hostileWords: Hostility = ({ random }, operation, draft) => {
  const places = placesIn(operation.body ?? {}, draft.body).filter(({ path }) => path.length > 0);
  const text = random.pick(hostileTexts);
  const place = places.length === 0 ? undefined : random.pick(places);
  const body = place === undefined ? { [text]: text } : withValueAt(draft.body, place.path, text);
  return { ...draft, how: `hostile ${place?.path.join(".") ?? "name"}`, body };
};

const hostileBytes: Hostility = ({ random }, operation, draft) => {
  const { how, bytes } = hostileBody(random);
  const type = how.includes("YAML") ? operation.mediaTypes.at(-1) : undefined;
  return {
    ...draft,
    how: `a body that is ${how}`,
    bytes,
    headers: { ...draft.headers, "content-type": type ?? "application/json" },
  };
};

/** Fields that servers have believed before. Their values cannot hold line ends: no client would send them. */
const hostileHeader: Hostility = ({ random }, _operation, draft) => {
  const [name, value] = random.pick([
    ["x-forwarded-for", "127.0.0.1, ${jndi:ldap://x}"],
    ["x-forwarded-host", "evil.example"],
    ["x-http-method-override", "DELETE"],
    ["x-original-url", "/api/v1/tenants"],
    ["x-rewrite-url", "/metrics"],
    ["accept", "application/xml;q=1e400,*/*"],
    ["accept-encoding", "gzip;q=NaN, br"],
    ["if-none-match", "*"],
    ["if-match", '"nothing"'],
    ["range", "bytes=0-0,-1,5-"],
    ["traceparent", `00-${"f".repeat(32)}-${"f".repeat(16)}-ff`],
    ["traceparent", "x".repeat(4_000)],
    ["idempotency-key", '"unterminated'],
    ["idempotency-key", "x".repeat(256)],
    ["idempotency-key", "\xe9"],
    ["x-request-id", "<script>"],
    ["cookie", "a=b; ".repeat(200)],
    ["last-event-id", "-1"],
    ["last-event-id", "999999999999999"],
    ["origin", "https://evil.example"],
    ["constructor", "x"],
    ["__proto__", "x"],
  ] as const);
  return { ...draft, how: `the header ${name}`, headers: { ...draft.headers, [name]: value } };
};

/** Spellings of a path that routers have read in two ways. None of them is the path of an operation any more. */
const hostileTarget: Hostility = ({ random }, operation, draft) => {
  const path = pathOf(operation.path, draft.params);
  const [how, spelling] = random.pick([
    ["a second slash at its start", `/${path}`],
    ["a slash at its end", `${path}/`],
    ["dots at its end", `${path}/.`],
    ["a way back", `/x/..${path}`],
    ["a way back, escaped", `/x/%2e%2e${path}`],
    ["a semicolon", `${path};a=b`],
    ["capitals", path.toUpperCase()],
    ["an escaped slash", `/x%2F..${path}`],
    ["a broken escape", `${path}/%zz`],
    ["half an escape", `${path}/%`],
    ["an escape that is no UTF-8", `${path}/%ff%fe`],
    ["a backslash", `${path}\\x`],
  ] as const);
  return { ...draft, how: `a path with ${how}`, path: spelling, isRouted: false };
};

export function spelt(operation: FuzzOperation, draft: Draft): FuzzRequest {
  const path = draft.path ?? pathOf(operation.path, draft.params);
  const query = draft.query.map(([name, value]) => `${name}=${value}`).join("&");
  const body =
    draft.bytes ?? (draft.body === undefined ? undefined : Buffer.from(JSON.stringify(draft.body)));
  return {
    operation: operation.name,
    how: draft.how,
    method: draft.method,
    target: query === "" ? path : `${path}?${query}`,
    headers: {
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(draft.key === undefined ? {} : { "x-api-key": draft.key }),
      ...draft.headers,
    },
    body,
    isRouted: draft.isRouted,
  };
}
