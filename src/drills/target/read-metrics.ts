// Reads what gateways show at /metrics: sums of the series that have the labels asked for.
import type { Reading } from "./target.ts";

const line = /^interlock_([a-z0-9_]+)(?:\{([^}]*)\})? (\S+)$/;
const label = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;

export async function readMetrics(urls: readonly string[], platformKey: string): Promise<Reading> {
  const texts = await Promise.all(
    urls.map(async (url) => {
      const response = await fetch(`${url}/metrics`, { headers: { "x-api-key": platformKey } });
      if (!response.ok) throw new Error(`${url}/metrics answered ${response.status}`);
      return response.text();
    }),
  );
  return readingOf(texts);
}

export function readingOf(texts: readonly string[]): Reading {
  const samples = texts.flatMap((text) => text.split("\n")).flatMap(sampleOf);
  return {
    sum(name, wanted = {}) {
      return samples
        .filter((sample) => sample.name === name)
        .filter(({ labels }) => Object.entries(wanted).every(([key, value]) => labels[key] === value))
        .reduce((sum, { value }) => sum + value, 0);
    },
  };
}

function sampleOf(text: string) {
  const [, name, labels = "", value] = line.exec(text) ?? [];
  if (name === undefined) return [];
  const pairs = [...labels.matchAll(label)].map(([, key, given]) => [key, given] as const);
  return [{ name, labels: Object.fromEntries(pairs) as Record<string, string>, value: Number(value) }];
}
