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
  /** Of the thread, to be divided among the functions. */
  readonly cpuUs: number;
  /** Of the checkout: places are shown relative to it. */
  readonly root: string;
  /** Where the compiled files are, which have a copy of the checkout's folders. */
  readonly compiled: string;
};

const functionsShown = 25;

/**
 * A function has the part of the thread's CPU time that it has of the samples; those of an idle thread are left out. The times
 * between samples are not used, since they grow while others have the processor. A wait for the disk is sampled like work.
 */
export function describeProfile(title: string, reading: ProfileReading): string {
  const profile = JSON.parse(readFileSync(reading.file, "utf8")) as Profile;
  const rows = samplesByFunction(profile).filter(({ frame }) => frame.functionName !== "(idle)");
  const total = rows.reduce((sum, { samples }) => sum + samples, 0);
  const eachUs = reading.cpuUs / reading.operations;
  const place = placesIn(reading);
  const label = (frame: CallFrame) => `${frame.functionName || "(anonymous)"}  ${place(frame)}`;
  const shown = rows
    .slice(0, functionsShown)
    .map(({ frame, caller, samples }) => [
      caller === undefined ? label(frame) : `${frame.functionName}, native, from ${label(caller)}`,
      formatNumber((samples / total) * eachUs),
      `${((samples / total) * 100).toFixed(1)} %`,
    ]);
  return [
    `${title}: ${formatNumber(eachUs)} us for each of ${reading.operations} operations, profiled, ${total} samples`,
    formatTable(["self time", "us", ""], shown),
    reading.file,
  ].join("\n");
}

type FunctionSamples = {
  readonly frame: CallFrame;
  /** Of native code, which has no place of its own. */
  readonly caller?: CallFrame | undefined;
  readonly samples: number;
};

/**
 * A function is one row for all its callers; the most samples first. Native code is one row for each caller: V8 names it by its address,
 * which all functions of an addon share, so that every call of the SQLite driver has the name of one of them.
 */
export function samplesByFunction({ nodes, samples }: Profile): readonly FunctionSamples[] {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const callers = new Map(nodes.flatMap((node) => (node.children ?? []).map((child) => [child, node])));
  const rows = new Map<string, FunctionSamples>();
  for (const id of samples) {
    const frame = byId.get(id)?.callFrame;
    if (frame === undefined) continue;
    const isNative = frame.url === "" && !frame.functionName.startsWith("(");
    const caller = isNative ? callers.get(id)?.callFrame : undefined;
    const key = JSON.stringify([frame, caller]);
    rows.set(key, { frame, caller, samples: (rows.get(key)?.samples ?? 0) + 1 });
  }
  return [...rows.values()].sort((left, right) => right.samples - left.samples);
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
