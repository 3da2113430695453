// Versions of the NATS server: the oldest that has what the bus needs, and the oldest without known weaknesses.

/** Pull consumers with heartbeats, named consumers, limits per subject. */
export const leastVersion = "2.9.0";
export const patchedVersion = "2.12.7";

export function isBelow(version: string, least: string): boolean {
  const [left, right] = [numbersOf(version), numbersOf(least)];
  const place = left.findIndex((number, index) => number !== right[index]);
  return place >= 0 && (left[place] ?? 0) < (right[place] ?? 0);
}

/** A version that cannot be read counts as 0.0.0: too old. */
function numbersOf(version: string): readonly number[] {
  const found = /^v?(\d+)\.(\d+)\.(\d+)/.exec(version);
  return [1, 2, 3].map((group) => Number(found?.[group] ?? 0));
}
