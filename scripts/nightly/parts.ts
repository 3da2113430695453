// What a night is spent on: each part with its share of the time, its command, and how its output is read.

export type Given = {
  readonly minutes: number;
  /** A new one every night. */
  readonly seed: number;
  /** For what the part leaves behind. */
  readonly folder: string;
};

export type Part = {
  readonly name: string;
  /** Of the night; all together are 100 unless the command line says otherwise. */
  readonly share: number;
  /** Minutes that starting and judging take on top of its own time. */
  readonly besidesMinutes: number;
  /** After `npm run`. */
  words(given: Given): readonly string[];
  /** The lines of its output that say what it did. */
  readonly did: RegExp;
  /** The commands in its output that show a failure again; without them it is the part's own command. */
  readonly again?: RegExp;
  /** Pages and plots in its folder. */
  readonly leaves?: readonly string[];
};

const file = ({ folder }: Given, name: string) => `${folder}/${name}`;
const inMinutes = ({ minutes }: Given) => ["--minutes", minutes.toFixed(2)];

export const parts: readonly Part[] = [
  {
    name: "sim",
    share: 40,
    besidesMinutes: 0.3,
    words: (given) => [
      ...["sim", "--", ...inMinutes(given), "--from", String(given.seed)],
      ...["--json", file(given, "sim.json")],
    ],
    did: /^\d+ seeds in .*$|^faults: \d+|^No invariant was broken\.$|^.* broke .*$/gm,
    again: /npm run sim -- --seed .*/g,
  },
  {
    name: "chaos",
    share: 20,
    besidesMinutes: 1,
    words: (given) => [
      ...["chaos", "--", ...inMinutes(given), "--seed", String((given.seed % 999_999) + 1)],
      ...["--history", file(given, "chaos.jsonl")],
    ],
    did: /^history of .*$|^faults: .*$|^No violation\.$|^(VIOLATIONS|VOID|lost, as).*(\n {2}.*)*/gm,
    again: /npm run chaos -- --seed .*/g,
  },
  {
    name: "fuzz",
    share: 10,
    besidesMinutes: 0.2,
    words: (given) => ["fuzz", "--", ...inMinutes(given), "--seed", String(given.seed)],
    did: /^\d+ findings$|^\d+ requests(?=[^\n]*\n\n)/gm,
    again: /npm run fuzz -- --seed .*/g,
  },
  {
    // Verdicts of earlier nights are kept while the sources are the same: each night goes on with others.
    name: "mutation",
    share: 15,
    // The tests run once without a mutant; and a batch of 250 that was begun is finished.
    besidesMinutes: 8,
    words: (given) => [
      ...["mutate", "--", "--area", "all", ...inMinutes(given), "--seed", String(given.seed), "--resume"],
      ...["--json", file(given, "mutation.json")],
    ],
    did: /^\w+: \d+ killed .*$|^\d+ judged in .*$/gm,
    again: /npm run mutate -- .*--mutant .*/g,
  },
  {
    name: "soak",
    share: 15,
    besidesMinutes: 1,
    words: (given) => [
      ...["soak", "--", "--minutes", (given.minutes / 2).toFixed(2), "--window", soakWindow(given)],
      ...["--out", given.folder],
    ],
    did: /^[\d.]+ minutes at .*$|^[\d,]+ starts, .*$|^VIOLATION: .*$/gm,
    leaves: ["soak.md", "soak-embedded.svg", "soak-redis.svg"],
  },
];

/** As in 30 minutes, where everything is kept for a fortieth of the time. */
function soakWindow({ minutes }: Given): string {
  return Math.min(45, Math.max(1, (minutes / 2) * 1.5)).toFixed(1);
}
