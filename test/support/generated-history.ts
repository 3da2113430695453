// Histories of a system that makes no mistakes: its clients overlap, lose answers, and their lost requests may take effect late.
import type { Answer, Final, HistoryRecord, Operation } from "../../proof/history/record.ts";
import { createSeededRandom, type SeededRandom } from "../../src/testing/seeded-random.ts";
import { createCorrectSystem } from "./correct-system.ts";

export type GeneratedOptions = {
  readonly seed: number;
  readonly operations: number;
  readonly clients: number;
  /** Of all operations: how many are never answered. */
  readonly unknownFraction: number;
  /** Tenants whose runs only a cancel ends; there is one more, whose runs are worked on. */
  readonly cancelledTenants: number;
};

/** What an operation was answered; a refusal is a code. */
export type Outcome =
  | { readonly kind: "ok"; readonly answer: Answer }
  | { readonly kind: "fail"; readonly code: string; readonly answer?: Answer };

type Turn = {
  readonly client: string;
  readonly invokedAtUs: number;
  readonly effectAtUs: number;
  readonly answeredAtUs: number;
  readonly fate: "answered" | "effect without answer" | "no effect";
};

export function generateHistory(options: GeneratedOptions): HistoryRecord[] {
  const { seed, operations, cancelledTenants } = options;
  const random = createSeededRandom(seed);
  const system = createCorrectSystem(random.stream("system"), cancelledTenants);
  const turns = turnsOf(options, random.stream("turns"));
  const records: HistoryRecord[] = [];
  for (const [number, turn] of turns.entries()) {
    const id = `op-${number}`;
    const operation = system.choose(turn);
    records.push({ type: "invoke", id, client: turn.client, atUs: turn.invokedAtUs, ...operation });
    if (turn.fate === "no effect") continue;
    const outcome = system.perform(operation, turn, turn.fate === "answered");
    if (turn.fate === "answered") records.push(completionOf(id, turn.answeredAtUs, outcome));
  }
  const endUs = Math.max(0, ...turns.map(({ answeredAtUs }) => answeredAtUs)) + 1000;
  records.push(...endingOf(system.livingRuns(), endUs, (operation, atUs) => system.end(operation, atUs)));
  const faults = ["begin", "end"] as const;
  return [
    {
      type: "begin",
      format: 1,
      startedAt: "2026-01-01T00:00:00Z",
      seed,
      durability: "replicated",
      limits: system.limits,
      attemptsMax: operations,
    },
    ...faults.map((phase, index): HistoryRecord => {
      return { type: "fault", name: "pause worker", target: "worker-1", phase, atUs: (index * endUs) / 2 };
    }),
    ...records,
    ...system.writes(),
    ...system.finals().map((final: Final): HistoryRecord => ({ type: "final", ...final })),
  ];
}

function completionOf(id: string, atUs: number, outcome: Outcome): HistoryRecord {
  if (outcome.kind === "ok") return { type: "ok", id, answer: outcome.answer, atUs };
  const { answer, code } = outcome;
  return { type: "fail", id, code, atUs, ...(answer === undefined ? {} : { answer }) };
}

/** In the order in which they take effect. */
function turnsOf({ clients, operations, unknownFraction }: GeneratedOptions, random: SeededRandom): Turn[] {
  const freeUs = new Array<number>(clients).fill(0);
  const lives = new Array<number>(clients).fill(0);
  const turns = Array.from({ length: operations }, (_, number): Turn => {
    const index = number % clients;
    const invokedAtUs = (freeUs[index] as number) + random.integer(1, 500);
    const isUnknown = random.chance(unknownFraction);
    // What was sent and never answered may arrive much later.
    const delayUs = isUnknown && random.chance(0.3) ? random.integer(1, 20_000) : random.integer(1, 400);
    const effectAtUs = invokedAtUs + delayUs;
    const answeredAtUs = effectAtUs + random.integer(1, 400);
    freeUs[index] = isUnknown ? invokedAtUs + 1000 : answeredAtUs;
    const fate = isUnknown ? (random.chance(0.5) ? "effect without answer" : "no effect") : "answered";
    const client = `client-${index}.${lives[index]}`;
    if (isUnknown) lives[index] = (lives[index] as number) + 1;
    return { client, invokedAtUs, effectAtUs, answeredAtUs, fate };
  });
  return turns.sort((left, right) => left.effectAtUs - right.effectAtUs);
}

type LivingRun = { readonly tenant: string; readonly runId: string };

/** Somebody cancels what is left, and looks. */
function endingOf(
  runs: readonly LivingRun[],
  fromUs: number,
  end: (operation: Operation & { readonly operation: "cancel" }, atUs: number) => Outcome,
): HistoryRecord[] {
  return runs.flatMap(({ tenant, runId }, index): HistoryRecord[] => {
    const atUs = fromUs + index * 100;
    const id = `ending-${index}`;
    const operation = { operation: "cancel", tenant, runId } as const;
    return [
      { type: "invoke", id, client: "ending", atUs, ...operation },
      completionOf(id, atUs + 50, end(operation, atUs)),
    ];
  });
}
