// A trace that people can read: what processes and the store did, with the names of what it was done to.
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { SeedWatch } from "./seed-work.ts";

/** Watches one seed and gives a line for everything that happens, in order. */
export function readableTrace(onLine: (line: string) => void): SeedWatch & { end(): void } {
  // The store's own note comes just before the operation is told, and says less.
  let held: string | undefined;
  const release = () => {
    if (held !== undefined) onLine(held);
    held = undefined;
  };
  return {
    onNote: (note) => {
      release();
      held = inThreeDecimals(note);
    },
    onExecution: (execution) => {
      const [atMs = ""] = held?.split(" ", 1) ?? [];
      const noted = held?.slice(atMs.length + 1).startsWith(`store ${execution.caller} ${execution.name} `);
      if (noted !== true) release();
      onLine(`${noted === true ? atMs : "-"} ${describeExecution(execution)}`);
      held = undefined;
    },
    end: release,
  };
}

function inThreeDecimals(note: string): string {
  const [atMs = ""] = note.split(" ", 1);
  return `${Number(atMs).toFixed(3)}${note.slice(atMs.length)}`;
}

function describeExecution({ name, caller, request, outcome, execution }: StoreExecution): string {
  const again = execution === "second" ? " once more" : "";
  const asked = tell(request).join(" ");
  return `store ${caller} ${name}${again} ${asked} -> ${[outcome.kind, ...tell(outcome, ["kind"])].join(" ")}`;
}

/** What names things and says what became of them; everything else only fills the line. */
const telling = new Set([
  ...["tenant", "runId", "jobId", "approvalId", "entryId", "step", "attempt", "digest", "fence"],
  ...["kind", "status", "state", "because", "cause", "version", "decision", "verdict", "outcome", "commitId"],
]);

const partsMax = 24;

function tell(value: unknown, without: readonly string[] = []): string[] {
  const parts: string[] = [];
  collect(value, { parts, without, depth: 0 });
  return parts.slice(0, partsMax);
}

type Collecting = { readonly parts: string[]; readonly without: readonly string[]; readonly depth: number };

function collect(value: unknown, { parts, without, depth }: Collecting): void {
  if (typeof value !== "object" || value === null || depth > 4) return;
  const { namespace, name } = value as { readonly namespace?: unknown; readonly name?: unknown };
  if (typeof namespace === "string") parts.push(`${namespace}/${String(name)}`);
  for (const [key, part] of Object.entries(value)) {
    const isPlain = typeof part === "string" || typeof part === "number";
    if (isPlain && telling.has(key) && !without.includes(key)) parts.push(shown(key, part));
    else collect(part, { parts, without: [], depth: depth + 1 });
  }
}

/** Ids name themselves; numbers and states need their key. */
function shown(key: string, value: string | number): string {
  const named = ["tenant", "runId", "jobId", "approvalId", "kind"];
  const text = shortened(String(value));
  return named.includes(key) ? text : `${key}=${text}`;
}

/** The last lines that are about what the sentence names: its runs, keys and locks, else its tenants, else everything. */
export function linesAbout(lines: readonly string[], sentence: string, linesMax = 40): readonly string[] {
  const specific =
    /run_\d+_[0-9a-z]+|\b[0-9a-f]{64}\b|\bkey-\d+-\d+|\b(?:run|job|admission|approval|public)\/\S+/g;
  for (const pattern of [specific, /\btenant-\d+\b/g]) {
    const names = [...new Set(sentence.match(pattern) ?? [])].map(withoutStop);
    if (names.length === 0) continue;
    const about = lines.filter((line) => names.some((name) => line.includes(name)));
    if (about.length > 0) return withFaults(lines, about).slice(-linesMax);
  }
  return lines.slice(-linesMax);
}

function withoutStop(name: string): string {
  return shortened(name.replace(/[,.;:]+$/, ""));
}

/** Digests are recognised by their first digits. */
function shortened(text: string): string {
  return text.replaceAll(/\b([0-9a-f]{12})[0-9a-f]{52}\b/g, "$1");
}

/** What happened to the processes that these lines name, and to the store, belongs to the story. */
function withFaults(lines: readonly string[], about: readonly string[]): readonly string[] {
  const kept = new Set(about);
  const processes = new Set(about.flatMap((line) => line.match(/\b[a-z]+(?:-\d+)+\.\d+\b/g) ?? []));
  const fault = / (?:paused for|resumed with|crashed|cut off for|wall clock jumped|unreachable for|healed)/;
  return lines.filter((line) => {
    if (kept.has(line)) return true;
    if (!fault.test(line) && !/ store clock jumped/.test(line)) return false;
    const [, who = ""] = line.split(" ");
    return who === "store" || who === "healed" || processes.has(who);
  });
}
