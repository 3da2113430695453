// The world outside, as a process of its own: sets that agents change under a lock, guarded by fences, and the dispatch check.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createSeededRandom } from "../src/testing/seeded-random.ts";
import { openRecorder } from "./recorder.ts";

export type OutsideOptions = {
  readonly file: string;
  readonly seed: number;
  /** `none` is a planted bug: whatever comes last is kept. */
  readonly guard: "fences" | "none";
};

/** What a writer sends: all that it read, and its own element. */
export type SetWrite = {
  readonly fence: number;
  readonly writer: string;
  readonly element: string;
  readonly elements: readonly string[];
};

type Kept = { highest: number; elements: readonly string[] };

const { file, seed, guard } = JSON.parse(process.argv[2] ?? "{}") as OutsideOptions;
const recorder = openRecorder(file);
const random = createSeededRandom(seed).stream("dispatch check");
const sets = new Map<string, Kept>();

function keptOf(name: string): Kept {
  const kept = sets.get(name) ?? { highest: 0, elements: [] };
  sets.set(name, kept);
  return kept;
}

/**
 * A read raises the fence as well: otherwise an older owner could still write after a newer one has read, and the newer one
 * would then write over it.
 */
function admit(kept: Kept, fence: number): boolean {
  if (guard === "none") return true;
  if (fence < kept.highest) return false;
  kept.highest = fence;
  return true;
}

function read(name: string, fence: number) {
  const kept = keptOf(name);
  return admit(kept, fence) ? { status: 200, body: { elements: kept.elements } } : { status: 409, body: {} };
}

function write(name: string, { fence, writer, element, elements }: SetWrite) {
  const kept = keptOf(name);
  const accepted = admit(kept, fence);
  recorder.now({ type: "write", set: name, fence, writer, element, accepted });
  if (accepted) kept.elements = elements;
  return { status: accepted ? 200 : 409, body: {} };
}

function check() {
  if (random.chance(0.15)) return { verdict: "hold", reason: "not yet", retry_after_ms: 300 };
  return random.chance(0.05) ? { verdict: "deny", reason: "not at all" } : { verdict: "allow" };
}

async function answer(request: IncomingMessage) {
  const url = new URL(request.url ?? "/", "http://outside");
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  if (url.pathname === "/check") return { status: 200, body: check() };
  if (url.pathname === "/sets") {
    return { status: 200, body: [...sets].map(([set, { elements }]) => ({ set, elements })) };
  }
  const name = url.pathname.replace(/^\/sets\//, "");
  if (request.method === "GET") return read(name, Number(url.searchParams.get("fence")));
  return write(name, JSON.parse(text) as SetWrite);
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    const { status, body } = await answer(request);
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  } catch {
    // A process that asks the check may die in the middle of its question.
    response.destroy();
  }
}

const server = createServer((request, response) => void serve(request, response));
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  console.log(JSON.stringify({ ready: true, port: typeof address === "object" ? address?.port : 0 }));
});
