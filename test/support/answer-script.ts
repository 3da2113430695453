// Asks a gateway a list of questions, one after the other, and gives its answers whole, with names in the place of what differs each time.
import type { GatewayWorld, TestKey } from "./gateway-world.ts";

type Seen = Readonly<Record<string, Answer>>;
export type Answer = { readonly status: number; readonly body: unknown; readonly headers?: object };

export type Question = {
  readonly title: string;
  /** `admin` is acme's; `platform` the platform's; `globex admin` the other tenant's. */
  readonly as: string;
  readonly asks: string | ((raw: RawAnswers) => string);
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
};

/** The answers as they came, by the title of the question: later questions name what is in them. */
export type RawAnswers = (title: string) => never;

export async function answersTo(world: GatewayWorld, questions: readonly Question[]): Promise<Seen> {
  const raw = new Map<string, unknown>();
  const names = createNames();
  const answers: Record<string, Answer> = {};
  for (const { title, as, asks, body, headers = {} } of questions) {
    const rawOf: RawAnswers = (earlier) => raw.get(earlier) as never;
    const [method = "", path = ""] = (typeof asks === "string" ? asks : asks(rawOf)).split(" ");
    const sent = typeof body === "function" ? (body as (given: RawAnswers) => unknown)(rawOf) : body;
    const payload =
      typeof sent === "string"
        ? { text: sent, headers: { "content-type": "application/yaml", ...headers } }
        : { body: sent, headers };
    const answer = await world.ask(method, path, { key: keyNamed(world, as), ...payload });
    raw.set(title, answer.json);
    const told = ["retry-after", "idempotent-replayed", "location", "allow"].flatMap((name) => {
      const value = answer.headers.get(name);
      return value === null ? [] : [[name, name === "retry-after" ? "<seconds>" : names(value)]];
    });
    answers[title] = {
      status: answer.status,
      ...(told.length === 0 ? {} : { headers: Object.fromEntries(told) as object }),
      body: answer.text === "" ? "" : steady(answer.json, names),
    };
  }
  return answers;
}

function keyNamed(world: GatewayWorld, name: string): TestKey | undefined {
  if (name === "nobody") return undefined;
  if (name === "platform") return world.platform;
  const [tenant, role] = name.startsWith("globex ")
    ? ["globex" as const, name.slice(7)]
    : ["acme" as const, name];
  return world[tenant][role as "admin"];
}

const patterns: ReadonlyArray<readonly [name: string, pattern: RegExp]> = [
  ["time", /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g],
  ["run", /run_\d\d_[A-Za-z0-9]+/g],
  ["key", /ilk_[A-Za-z0-9_.-]+/g],
  ["process", /\b[\w.-]+:\d+:[0-9a-f]{6}\b/g],
  ["rollout", /rollout-[0-9a-f]{12}/g],
  ["milliseconds", /\b1\d{12}\b/g],
  ["canary", /canary-[0-9a-f]{32}/g],
  ["key", /\b(?:platform|acme|globex|initech)\.[0-9a-f]{16}\b/g],
  ["hash", /\b(?:[0-9a-f]{64}|[0-9a-f]{32})\b/g],
  ["request", /req_[A-Za-z0-9-]+/g],
];

/** The same thing gets the same name: the second run is `<run 2>` wherever it stands. */
function createNames(): (text: string) => string {
  const known = new Map<string, string>();
  const counts = new Map<string, number>();
  const name = (kind: string, text: string) => {
    if (["time", "request", "milliseconds"].includes(kind)) return `<${kind}>`;
    const found = known.get(text);
    if (found !== undefined) return found;
    const number = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, number);
    known.set(text, `<${kind} ${number}>`);
    return `<${kind} ${number}>`;
  };
  return (text) =>
    patterns.reduce((rest, [kind, pattern]) => rest.replaceAll(pattern, (found) => name(kind, found)), text);
}

/** Members whose value no two worlds share. */
const differing =
  /^(next_cursor|fence|held_for_ms|expires_in_ms|waited_ms|claim_token|token|last_seen_ms_ago|store_ahead_ms|uptime_ms)$/;

function steady(value: unknown, names: (text: string) => string): unknown {
  if (typeof value === "string") return names(value);
  if (Array.isArray(value)) return value.map((each) => steady(each, names));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      names(name),
      differing.test(name) && member !== null ? `<${name}>` : steady(member, names),
    ]),
  );
}
