// Callers of startRun: they choose keys that others choose too, go away early, and repeat what may be repeated.
import { type AdmissionAnswer, startRun } from "../../../src/control/admission/start-run.ts";
import { digestOf, type Fingerprint } from "../../../src/domain/fingerprint.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import { errors } from "../../../src/errors.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import { bareStart } from "../bare-run.ts";
import type { AttemptKey, StartAttempt } from "../checks/history.ts";
import { mustHold } from "../invariants/violation.ts";
import type { Node, World } from "../world.ts";

const triesMax = 4;

export async function runClient(world: World, node: Node, name: string): Promise<void> {
  const { kernel, swarm } = world;
  const { clock } = node.process;
  const random = node.process.random.stream(name);
  for (let request = 1; ; request += 1) {
    await clock.sleep(random.integer(1, swarm.thinkMsMax));
    if (kernel.nowMs() >= swarm.chaosMs || world.leaving.has(node.process.name)) return;
    const tenant = random.pick(world.tenants);
    const key = random.chance(swarm.keylessRate) ? undefined : drawKey(world, random);
    await startWithRetries(world, node, random, {
      tenant,
      key,
      caller: `${node.process.name}/${name}/${request}`,
    });
  }
}

/** The same texts in every tenant: that they mean different things is part of what is checked. */
export function drawKey({ kernel, swarm }: World, random: SeededRandom): AttemptKey {
  const epoch = Math.floor(kernel.nowMs() / swarm.keyEpochMs);
  const fingerprint = (random.chance(swarm.otherFingerprintRate) ? "v1:other" : "v1:usual") as Fingerprint;
  return keyOf(`key-${epoch}-${random.integer(1, swarm.keys)}`, fingerprint);
}

export function keyOf(text: string, fingerprint: Fingerprint): AttemptKey {
  return { text, digest: digestOf("start_run", text), fingerprint };
}

type Intent = { readonly tenant: TenantId; readonly key: AttemptKey | undefined; readonly caller: string };

async function startWithRetries(
  world: World,
  node: Node,
  random: SeededRandom,
  intent: Intent,
): Promise<void> {
  const { tenant, key, caller } = intent;
  for (let attempt = 1; attempt <= triesMax; attempt += 1) {
    const actor = `${caller}/${attempt}`;
    const asked: StartAttempt = key === undefined ? { actor, tenant } : { actor, tenant, key };
    const { kind } = await start(world, node, asked, abortedEarly(world, node, random));
    if (kind === "admitted" || kind === "queued" || kind === "replayed" || !errors[kind].retryable) return;
    await node.process.clock.sleep(random.integer(10, 1_500));
  }
}

export async function start(world: World, node: Node, asked: StartAttempt, signal?: AbortSignal) {
  const { actor, tenant, key } = asked;
  const request = { ...bareStart, tenant, actor };
  world.history.startAsked(asked);
  const answered = world.failClosed.begin(node.process, `start ${actor}`);
  const begin = world.bug?.startRun ?? startRun;
  const answer = await begin(node.gate(), key === undefined ? request : { ...request, key }, signal);
  world.kernel.note(actor, key?.text ?? "no key", answer.kind, "runId" in answer ? answer.runId : "");
  answered(answer);
  world.history.startAnswered(asked, answer);
  if (world.swarm.calm) checkCalmAnswer(answer);
  return answer;
}

/** Where nothing fails, a caller may have to wait its turn in vain, but is never left in doubt. */
function checkCalmAnswer(answer: AdmissionAnswer): void {
  // At the quota of keys a start under the lock may lose its reservation to another's: nothing is lost, and it is told so.
  const inTurn = ["admission lock busy", "reservation_lost"];
  const busy =
    answer.kind === "concurrency_gate_unavailable" && inTurn.some((cause) => answer.cause.startsWith(cause));
  const trouble =
    answer.kind === "outcome_unknown" || (answer.kind === "concurrency_gate_unavailable" && !busy);
  mustHold(!trouble, "liveness", () => `nothing fails, and yet: ${JSON.stringify(answer)}`);
}

/** A caller that goes away: sometimes before anything has happened, sometimes in the middle. */
export function abortedEarly({ swarm }: World, node: Node, random: SeededRandom): AbortSignal | undefined {
  if (!random.chance(swarm.abortRate)) return undefined;
  const controller = new AbortController();
  node.process.clock.timer(random.integer(0, 300), () => controller.abort());
  return controller.signal;
}
