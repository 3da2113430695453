// Reads a CPU profile of V8 and lists the functions with most self time, by their place in the source.
import { existsSync, readFileSync } from "node:fs";
import { SourceMap, type SourceMapPayload } from "node:module";
import { dirname, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { formatNumber, formatTable } from "./report.ts";

type Profile = {
  readonly nodes: ReadonlyArray<{
    readonly id: number;
    readonly callFrame: CallFrame;
    readonly children?: readonly number[];
  }>;
  readonly samples: readonly number[];
  /** Microseconds from the sample before to this one. */
  readonly timeDeltas: readonly number[];
};

/** Lines and columns count from 0. */
type CallFrame = {
  readonly functionName: string;
  readonly url: string;
  readonly lineNumber: number;
  readonly columnNumber: number;
};

export type ProfileReading = {
  readonly file: string;
  readonly operations: number;
  /** Of the checkout: places are shown relative to it. */
  readonly root: string;
  /** Where the compiled files are, which have a copy of the checkout's folders. */
  readonly compiled: string;
};

const functionsShown = 25;

/** The time in which the thread waited for work is left out; a wait for the disk or for a processor is in it. */
export function describeProfile(title: string, reading: ProfileReading): string {
  const profile = JSON.parse(readFileSync(reading.file, "utf8")) as Profile;
  const times = selfTimes(profile).filter(({ frame }) => frame.functionName !== "(idle)");
  const total = times.reduce((sum, { selfUs }) => sum + selfUs, 0);
  const place = placesIn(reading);
  const rows = times
    .slice(0, functionsShown)
    .map(({ frame, selfUs }) => [
      `${frame.functionName === "" ? "(anonymous)" : frame.functionName}  ${place(frame)}`,
      formatNumber(selfUs / reading.operations),
      `${((selfUs / total) * 100).toFixed(1)} %`,
    ]);
  return [
    `${title}: ${formatNumber(total / reading.operations)} us of one operation were sampled, ${reading.operations} operations`,
    formatTable(["self time", "us", ""], rows),
    reading.file,
  ].join("\n");
}

type SelfTime = {
  readonly frame: CallFrame;
  /** Of native code, which has no place of its own. */
  readonly caller?: CallFrame | undefined;
  readonly selfUs: number;
};

/**
 * A function is one row, whoever called it; the longest first. Native code is one row for each caller: V8 names it by its address,
 * which all functions of an addon share, so that every call of the SQLite driver has the name of one of them.
 */
export function selfTimes({ nodes, samples, timeDeltas }: Profile): readonly SelfTime[] {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const callers = new Map(nodes.flatMap((node) => (node.children ?? []).map((child) => [child, node])));
  const rows = new Map<string, SelfTime>();
  samples.forEach((id, index) => {
    const frame = byId.get(id)?.callFrame;
    if (frame === undefined) return;
    const isNative = frame.url === "" && !frame.functionName.startsWith("(");
    const caller = isNative ? callers.get(id)?.callFrame : undefined;
    const key = JSON.stringify([frame, caller]);
    // A sample stands for the time until the next one.
    const selfUs = (rows.get(key)?.selfUs ?? 0) + (timeDeltas[index + 1] ?? 0);
    rows.set(key, { frame, caller, selfUs });
  });
  return [...rows.values()].sort((left, right) => right.selfUs - left.selfUs);
}

/** File and line, in the TypeScript where there is a source map. */
function placesIn({ root, compiled }: ProfileReading): (frame: CallFrame) => string {
  const maps = new Map<string, SourceMap | undefined>();
  return ({ url, lineNumber, columnNumber }) => {
    if (!url.startsWith("file:")) return url === "" ? "" : `${url}:${lineNumber + 1}`;
    const file = fileURLToPath(url);
    if (!maps.has(file)) maps.set(file, readMap(`${file}.map`));
    const entry = maps.get(file)?.findEntry(lineNumber, columnNumber);
    if (entry !== undefined && "originalSource" in entry) {
      return `${relative(root, resolve(dirname(file), entry.originalSource))}:${entry.originalLine + 1}`;
    }
    const folder = file.startsWith(compiled) ? compiled : root;
    return `${relative(folder, file)}:${lineNumber + 1}`;
  };
}

function readMap(path: string): SourceMap | undefined {
  if (!existsSync(path)) return undefined;
  return new SourceMap(JSON.parse(readFileSync(path, "utf8")) as SourceMapPayload);
}
