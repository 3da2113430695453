// Starts a run of a workflow: its first steps are decided before the store is asked, so that one operation does it all.
import { startRun as firstCommit } from "../../domain/engine/start.ts";
import { makeRunId, orderedUnique } from "../../domain/run.ts";
import { retryAfterSeconds } from "../../domain/wait.ts";
import type { StartWorkflowAnswer, StartWorkflowRequest } from "../control-api.ts";
import { afterCommit, remember } from "../engine/after-commit.ts";
import { drainRun } from "../engine/drain-run.ts";
import type { Engine } from "../engine/engine.ts";
import { settingsOf } from "../engine/engine.ts";
import type { CurrentWorkflow } from "../workflows/definitions.ts";
import { startRun } from "./start-run.ts";

export async function startWorkflow(
  engine: Engine,
  request: StartWorkflowRequest,
  signal?: AbortSignal,
): Promise<StartWorkflowAnswer> {
  const { caller, workflow } = request;
  for (let tries = 1; ; tries += 1) {
    const current = await engine.definitions.current(caller.tenant, workflow);
    if (current.kind === "not_found") return { kind: "workflow_not_found" };
    if (current.kind !== "current") return gateUnavailable(engine, current.cause);
    const problems = current.definition.problemsOfInput(request.input);
    if (problems.length > 0) return { kind: "input_invalid", problems };
    const answer = await startBy(engine, request, current, signal);
    if (answer.kind !== "workflow_changed") return answer;
    // Somebody saved the workflow since this process read it. Nothing was admitted: read it again.
    engine.definitions.forgetCurrent(caller.tenant, workflow);
    if (tries === 3) return gateUnavailable(engine, "the workflow keeps changing");
  }
}

async function startBy(
  engine: Engine,
  request: StartWorkflowRequest,
  { definition, hash, revision }: CurrentWorkflow,
  signal: AbortSignal | undefined,
) {
  const { ports, config, storeTime } = engine;
  const { caller, workflow, input, key, traceparent } = request;
  const { tenant, actor, credential } = caller;
  const settings = await settingsOf(engine, tenant);
  const separateDuties = settings?.separateDuties ?? config["approvals.separateDuties"] === "yes";
  const runId = makeRunId(tenant, orderedUnique(ports.clock.wallMs(), ports.random.token()));
  const nowMs = storeTime.nowMs();
  const started = firstCommit(definition, {
    runId,
    tenant,
    actor,
    input,
    nowMs,
    separateDuties,
    ...(traceparent === undefined ? {} : { traceparent }),
  });
  const preclaim = engine.offers.preclaim(tenant, runId, started.change);
  const { change } = preclaim;
  const answer = await startRun(
    engine,
    {
      tenant,
      runId,
      workflow,
      revision,
      definition: hash,
      actor,
      change,
      start: started.large ? "inbox" : "applied",
      ...(key === undefined ? {} : { key }),
      ...(credential === undefined ? {} : { credential }),
    },
    signal,
  );
  if (answer.kind !== "admitted") {
    preclaim.abandon();
    return answer;
  }
  const { claims, storeTimeMs } = answer;
  storeTime.learn(storeTimeMs);
  if (started.large) {
    preclaim.abandon();
    engine.background.run("starting a large run", () => drainRun(engine, tenant, runId));
    return answer;
  }
  const run = {
    tenant,
    runId,
    actor,
    definition: hash,
    version: 0,
    status: change.status,
    bytes: 0,
    proposing: false,
  };
  remember(engine, { ...run, records: new Map() }, change, 1);
  afterCommit(engine, { tenant, runId, change, claims, storeTimeMs, preclaim });
  return answer;
}

function gateUnavailable({ config, ports }: Engine, cause: string): StartWorkflowAnswer {
  const seconds = retryAfterSeconds(config["admission.retryAfterSeconds"], 1, ports.random.fraction());
  return { kind: "gate_unavailable", cause, retryAfterSeconds: seconds };
}
