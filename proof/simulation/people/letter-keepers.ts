// People who look after dead letters: they retry them, twice at a time, remove them, and purge what they do not want to see.
import type { RetryAnswer } from "../../../src/control/dead-letters/retry-dead-letter.ts";
import type { Letter } from "../../../src/domain/dead-letter.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { EngineNode } from "../engine-node.ts";
import type { World } from "../world.ts";
import { credentials } from "./operators.ts";

export async function keepLetters(
  world: World,
  node: EngineNode,
  random: SeededRandom,
  who: string,
): Promise<void> {
  const tenant = random.pick(world.tenants);
  const caller = { tenant, actor: who, credential: random.pick(credentials) };
  const state = random.chance(0.7) ? ({ state: "open" } as const) : {};
  const listed = await node.api.listDeadLetters({ tenant, after: "", limit: 20, ...state });
  if (listed.kind !== "listed" || listed.letters.length === 0) return;
  const letter = random.pick(listed.letters);
  const roll = random.fraction();
  if (roll < 0.05) {
    const purged = await node.api.purgeDeadLetters({ caller, reason: letter.reason });
    world.kernel.note(who, "purged", letter.reason, purged.kind);
    return;
  }
  if (roll < 0.15) {
    const removed = await node.api.removeDeadLetter({ caller, id: letter.id });
    world.kernel.note(who, "removed", letter.id, removed.kind);
    return;
  }
  const times = random.chance(0.3) ? 2 : 1;
  await Promise.all(
    Array.from({ length: times }, () => retryLetter(world, node, letter, { ...caller, actor: who })),
  );
}

/** Each once, in the time without faults: whatever opens a run again brings it to an end again. */
export async function retryEveryLetter(world: World, node: EngineNode): Promise<void> {
  for (const tenant of world.tenants) {
    const listed = await node.api.listDeadLetters({ tenant, after: "", limit: 100, state: "open" });
    for (const letter of listed.kind === "listed" ? listed.letters : []) {
      await retryLetter(world, node, letter, { tenant, actor: "peace", credential: "key-3" });
    }
  }
}

type Who = { readonly tenant: TenantId; readonly actor: string; readonly credential: string };

async function retryLetter(
  world: World,
  node: EngineNode,
  { id, runId }: Letter,
  caller: Who,
): Promise<void> {
  const answer = await node.api.retryDeadLetter({ caller, id });
  world.kernel.note(caller.actor, "retried", id, describe(answer));
  if (runId !== undefined) world.actions.retryAnswered(runId, id, answer);
}

function describe(answer: RetryAnswer): string {
  return answer.kind === "retrying" && answer.already ? "already" : answer.kind;
}
