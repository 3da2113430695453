// Reads Prometheus' text format: what kind each metric is, and every sample with its labels.
export type Sample = {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
};

export type Exposed = { readonly kinds: ReadonlyMap<string, string>; readonly samples: readonly Sample[] };

const sampleLine = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const label = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)",?/y;

export function readMetrics(text: string): Exposed {
  const kinds = new Map<string, string>();
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    const [, name = "", kind = ""] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? [];
    if (name !== "") kinds.set(name, kind);
    if (line !== "" && !line.startsWith("#")) samples.push(readSample(line));
  }
  return { kinds, samples };
}

function readSample(line: string): Sample {
  const [, name = "", inner = "", value = ""] = sampleLine.exec(line) ?? [];
  if (name === "") throw new Error(`no sample: ${line}`);
  const labels: Record<string, string> = {};
  label.lastIndex = 0;
  while (label.lastIndex < inner.length) {
    const at = label.lastIndex;
    const [, key = "", text = ""] = label.exec(inner) ?? [];
    if (key === "") throw new Error(`no label at ${at}: ${line}`);
    labels[key] = text.replaceAll(/\\(.)/g, (_all, escaped: string) => (escaped === "n" ? "\n" : escaped));
  }
  return { name, labels, value: value === "+Inf" ? Number.POSITIVE_INFINITY : Number(value) };
}
