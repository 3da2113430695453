// Runs a server, asks it for starts, results and decisions, and prints as JSON what each passes through:
//   node --import tsx scripts/measure-paths.ts <checkout>
// It knows the checkout only by its command `serve` and by HTTP, so that one script can measure any version of it.
//
// Called: the functions of src/ that V8's precise coverage saw between a request and its answer. Each request is measured
// `samples` times after a warm-up, and only what was called every time counts, so that background work does not. The
// embedded store works in a thread of its own, which is not seen: the path ends where its queue is called.
//
// Frames: the functions on V8's asynchronous stack at the moment the store is called, outside src/adapters. That queue sets
// a timer for every call, which shows the moment. Of several calls in one request the deepest counts.
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Session } from "node:inspector";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";

type Func = { readonly file: string; readonly name: string; readonly isAsync: boolean };
type Sample = { readonly called: readonly Func[]; readonly stacks: readonly (readonly Func[])[] };
export type Path = {
  readonly called: readonly Func[];
  readonly frames: readonly Func[];
  readonly storeCalls: number;
};
export type Paths = { readonly start: Path; readonly result: Path; readonly decision: Path };

const samples = 10;
const warmUps = 30;

const source = `${pathToFileURL(join(process.argv[2] ?? ".", "src")).href}/`;
const directory = mkdtempSync(join(tmpdir(), "interlock-measure-"));
const session = new Session();
session.connect();

/** In the session of its own process the answer is there when the call returns. */
function post<Answer>(method: string, parameters: object = {}): Answer {
  let answer: Answer | undefined;
  session.post(method, parameters, (error, result) => {
    if (error !== null) throw error;
    answer = result as Answer;
  });
  return answer as Answer;
}

type Range = { readonly startOffset: number; readonly endOffset: number; readonly count: number };
type Coverage = {
  readonly result: readonly {
    readonly scriptId: string;
    readonly url: string;
    readonly functions: readonly { readonly functionName: string; readonly ranges: readonly [Range] }[];
  }[];
};

/** The functions of src/ that were called since this was asked last. */
function calledFunctions() {
  const { result } = post<Coverage>("Profiler.takePreciseCoverage");
  return result
    .filter(({ url }) => url.startsWith(source))
    .flatMap(({ scriptId, url, functions }) => {
      const text = post<{ scriptSource: string }>("Debugger.getScriptSource", { scriptId }).scriptSource;
      return functions
        .map(({ functionName, ranges: [{ startOffset, endOffset, count }] }) => ({
          file: url.slice(source.length),
          name: functionName || `(anonymous at ${startOffset})`,
          isAsync: /^async\b/.test(text.slice(startOffset)) || /\basync\s+$/.test(text.slice(0, startOffset)),
          startOffset,
          endOffset,
          count,
        }))
        .filter(({ count, startOffset }) => count > 0 && startOffset > 0);
    });
}

type Site = { readonly file: string; readonly position: number };
let stacks: Site[][] | undefined;

function watchStoreCalls(): void {
  const { setTimeout: setTimer } = globalThis;
  globalThis.setTimeout = new Proxy(setTimer, {
    apply(target, self, words) {
      if (stacks !== undefined) noteStack(stacks);
      return Reflect.apply(target, self, words);
    },
  });
}

/** Keeps the stack if it leads from a request to the store. */
function noteStack(into: Site[][]): void {
  const { prepareStackTrace, stackTraceLimit } = Error;
  Error.stackTraceLimit = 200;
  // The positions in the loaded text, which is what coverage speaks of.
  Error.prepareStackTrace = (_error, sites) =>
    sites.map((site) => ({ file: site.getFileName() ?? "", position: site.getPosition() }));
  const sites = new Error("where the store is called").stack as unknown as Site[];
  Object.assign(Error, { prepareStackTrace, stackTraceLimit });
  const isIn = (folder: string) => sites.some(({ file }) => file.startsWith(source + folder));
  if (isIn("adapters/sqlite/") && isIn("gateway/")) into.push(sites);
}

async function measured(ask: () => Promise<unknown>): Promise<Sample> {
  calledFunctions();
  const seen: Site[][] = [];
  stacks = seen;
  await ask();
  stacks = undefined;
  const called = calledFunctions();
  const functionAt = ({ file, position }: Site) =>
    called
      .filter((func) => source + func.file === file)
      .filter(({ startOffset, endOffset }) => startOffset <= position && position < endOffset)
      .sort((one, other) => other.startOffset - one.startOffset)[0];
  const onStack = (sites: readonly Site[]) =>
    sites
      .map(functionAt)
      .filter((func) => func !== undefined)
      .filter(({ file }) => !file.startsWith("adapters/"));
  return { called, stacks: seen.map(onStack) };
}

function pathOf(measurements: readonly Sample[]): Path {
  const label = ({ file, name }: Func) => `${file} ${name}`;
  // The one with the fewest store calls: in others a cached key or tenant was read anew.
  const [first] = measurements.toSorted((one, other) => one.stacks.length - other.stacks.length) as [Sample];
  const labels = measurements.map(({ called }) => new Set(called.map(label)));
  const called = first.called.filter((func) => labels.every((known) => known.has(label(func))));
  const [deepest = []] = first.stacks.toSorted((one, other) => asyncOf(other) - asyncOf(one));
  return { called, frames: deepest, storeCalls: first.stacks.length };
}

function asyncOf(functions: readonly Func[]): number {
  return functions.filter(({ isAsync }) => isAsync).length;
}

type Ask = (
  key: string,
  request: string,
  body?: unknown,
  headers?: Record<string, string>,
) => Promise<unknown>;

function asker(url: string): Ask {
  return async (key, request, body, headers = {}) => {
    const [method = "", path = ""] = request.split(" ");
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const type = body === undefined ? {} : { "content-type": "application/json" };
    const response = await fetch(url + path, {
      method,
      headers: { "x-api-key": key, ...type, ...headers },
      ...sent,
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${request}: ${response.status} ${text}`);
    return JSON.parse(text);
  };
}

async function startServer(): Promise<{ readonly ask: Ask; readonly keys: Record<string, string> }> {
  process.env.INTERLOCK_DATA_DIRECTORY = directory;
  process.argv.splice(2, process.argv.length, "--port", "0");
  void import(`${source}cli/serve.ts`);
  const deadlineMs = performance.now() + 60_000;
  const read = (name: string) => JSON.parse(readFileSync(join(directory, name), "utf8"));
  while (!existsSync(join(directory, "server.json"))) {
    if (performance.now() > deadlineMs) throw new Error("the server did not start");
    await delay(20);
  }
  return { ask: asker(read("server.json").url), keys: read("keys.json") };
}

async function measurePaths(): Promise<Paths> {
  const { ask, keys } = await startServer();
  const { admin = "", worker = "" } = keys;
  const second = { topic: "nobody", depends_on: ["first"] };
  await ask(admin, "POST /api/v1/workflows", { id: "work", steps: { first: { topic: "t" }, second } });
  await ask(admin, "POST /api/v1/workflows", { id: "ask", steps: { first: { type: "approval" }, second } });
  const approver = await ask(admin, "POST /api/v1/keys", { role: "approver", name: "approver" });
  const { key: decider } = approver as { key: string };
  const found: Record<keyof Paths, Sample[]> = { start: [], result: [], decision: [] };
  const take = async (name: keyof Paths, work: () => Promise<unknown>) => {
    found[name].push(await measured(work));
    // What follows an answer is not to be seen in the next request.
    await delay(20);
  };
  for (let round = 0; round < warmUps + samples; round += 1) {
    const start = (workflow: string) =>
      ask(
        admin,
        `POST /api/v1/workflows/${workflow}/runs`,
        {},
        { "idempotency-key": `${workflow}-${round}` },
      );
    await take("start", () => start("work"));
    const poll = { worker_id: "w", poll_id: `poll-${round}`, topics: ["t"], wait_ms: 5_000 };
    const { jobs } = (await ask(worker, "POST /api/v1/jobs/poll", poll)) as {
      readonly jobs: readonly { readonly job_id: string; readonly claim_token: string }[];
    };
    const results = jobs.map(({ job_id, claim_token }) => ({
      job_id,
      claim_token,
      status: "succeeded",
      output: {},
    }));
    await take("result", () => ask(worker, "POST /api/v1/jobs/results", { worker_id: "w", results }));
    await start("ask");
    const { items } = (await ask(decider, "GET /api/v1/approvals?state=pending")) as {
      readonly items: readonly [{ readonly job_id: string; readonly hash: string }];
    };
    const [{ job_id, hash }] = items;
    await take("decision", () =>
      ask(decider, `POST /api/v1/approvals/${encodeURIComponent(job_id)}/approve`, { hash }),
    );
  }
  const path = (name: keyof Paths) => pathOf(found[name].slice(warmUps));
  return { start: path("start"), result: path("result"), decision: path("decision") };
}

post("Debugger.enable");
post("Profiler.enable");
post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
watchStoreCalls();
const paths = await measurePaths();
rmSync(directory, { recursive: true, force: true });
process.stdout.write(`${JSON.stringify(paths)}\n`, () => process.exit(0));
