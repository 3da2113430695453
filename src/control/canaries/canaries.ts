// Canaries as operators start, see and end them.
import { type Canary, type CanaryBook, missing, standings } from "../../domain/canary.ts";
import { familiesOf, withDefaultGuards } from "../../domain/canary-guard.ts";
import type { PolicyName } from "../../domain/policy.ts";
import { orderedUnique } from "../../domain/run.ts";
import type { Engine } from "../engine/engine.ts";
import { recordOf } from "../policies/change-scope.ts";
import { isKnown } from "../policies/policies.ts";
import { readRecord } from "../tenants/tenants.ts";
import { advanceCanary } from "./advance-canary.ts";
import type { CanaryApi, CanaryStatus, EndCanaryAnswer, NewCanary, StartCanaryAnswer } from "./canary-api.ts";
import { forgetOldCanaries, listCanaries, readCanary, saveCanary } from "./canary-documents.ts";
import { type CanaryDecision, decideCanary } from "./decide-canary.ts";
import { tellChanged } from "./watch-canaries.ts";

export function createCanaryApi(engine: Engine): CanaryApi {
  return {
    async startCanary(actor, canary) {
      const answer = await startCanary(engine, actor, canary);
      tellChanged(engine);
      return answer;
    },
    async listCanaries() {
      const answer = await listCanaries(engine);
      if (answer.kind !== "listed") return answer;
      return { kind: "listed", canaries: answer.canaries.map(({ canary }) => canary) };
    },
    async getCanary(id) {
      const answer = await readCanary(engine, id);
      return answer.kind === "canary" ? { kind: "canary", status: statusOf(engine, answer.canary) } : answer;
    },
    rollBackCanary: (actor, id, reason = "rolled back by hand") =>
      endCanary(engine, id, { state: "rolling_back", reason, actor }),
    keepCanary: (actor, id, reason = "kept by hand") =>
      endCanary(engine, id, { state: "keeping", reason, actor }),
  };
}

async function startCanary(engine: Engine, actor: string, asked: NewCanary): Promise<StartCanaryAnswer> {
  const { tenant, policies, forMs, guards } = asked;
  const known = await isKnown(engine, tenant);
  if (known.kind !== "tenant") return known;
  const scope = await readRecord(engine, recordOf(tenant));
  if (scope.kind !== "tenant") return scope;
  const { rollout } = scope.record.settings;
  if (rollout !== undefined) return { kind: "rollout_exists", rollout: rollout.id };
  const others = await listCanaries(engine);
  if (others.kind !== "listed") return others;
  await forgetOldCanaries(engine, others.canaries, actor);
  const { clock, random } = engine.ports;
  const id = `canary-${orderedUnique(clock.wallMs(), random.token())}`;
  const startedAtMs = engine.storeTime.nowMs();
  const families = familiesOf(Object.keys(policies) as PolicyName[]);
  const canary: Canary = {
    ...(tenant === undefined ? {} : { tenant }),
    ...{ id, policies, percent: asked.percent, startedBy: actor, startedAtMs, endsAtMs: startedAtMs + forMs },
    ...{ windowMs: asked.windowMs, samplesMin: asked.samplesMin, windowsInARow: asked.windowsInARow },
    guards: withDefaultGuards(guards, families),
    state: "starting",
  };
  const saved = await saveCanary(engine, { canary, revision: 0 }, actor);
  if (saved.kind === "conflict") return { kind: "unavailable", cause: "an id was drawn twice" };
  if (saved.kind !== "saved") return saved;
  const started = await advanceCanary(engine, id, actor);
  if (started.kind === "not_found") return { kind: "unknown", cause: "it was removed while it started" };
  if (started.kind !== "canary") return started;
  if (started.canary.state === "stopped") return { kind: "rollout_exists", rollout: "another rollout" };
  return { kind: "canary", status: statusOf(engine, started.canary) };
}

async function endCanary(engine: Engine, id: string, decision: CanaryDecision): Promise<EndCanaryAnswer> {
  const answer = await decideCanary(engine, id, decision);
  tellChanged(engine);
  if (answer.kind !== "canary") return answer;
  const status = statusOf(engine, answer.canary);
  const wanted = decision.state === "keeping" ? "kept" : "rolled_back";
  return answer.canary.state === wanted ? { kind: "canary", status } : { kind: "already_ended", status };
}

function statusOf(engine: Engine, canary: Canary): CanaryStatus {
  const book = bookOf(engine, canary);
  const nowMs = engine.storeTime.nowMs();
  return { canary, book, standings: standings(canary, book), missing: missing(canary, book), nowMs };
}

/** What this process knows, or what was kept when it knows less. */
function bookOf(engine: Engine, { id, totals }: Canary): CanaryBook {
  const book = engine.collected.of(id);
  if (totals === undefined) return book;
  const amount = ({ totals: { canary, control } }: CanaryBook) =>
    canary.results + canary.starts + control.results + control.starts;
  const kept = { totals: totals.arms, windows: book.windows };
  return amount(kept) > amount(book) ? kept : book;
}
