// A workflow with gates, and the words to start its runs, for tests of queues.
import type { StartAnswer } from "../../src/control/admission/start-run.ts";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { fingerprintOf } from "../../src/domain/fingerprint.ts";
import type { RunId } from "../../src/domain/run.ts";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import { ann, type FlowPlane, FlowWorld, type PlaneOptions, single, work } from "./flow-world.ts";

export const byCustomer = { key: "${input.customer}", max: 1, at_limit: "queue" };
type Header = { readonly [name: string]: JsonValue };

export async function setUp(header: Header, settings: TenantSettings = {}, options: PlaneOptions = {}) {
  const flow = new FlowWorld();
  await flow.tenant(settings);
  const plane = await flow.open("p", options);
  await plane.save("tickets", { one: work() }, header);
  return { flow, plane };
}

type Asked = {
  readonly input?: JsonValue;
  readonly key?: string;
  readonly priority?: number;
  readonly workflow?: string;
};

export function start(
  { flow, plane }: { readonly flow: FlowWorld; readonly plane: FlowPlane },
  asked: Asked = {},
) {
  const { input = { customer: "c1" }, key, priority, workflow = "tickets" } = asked;
  const named =
    key === undefined
      ? {}
      : {
          key: {
            text: key,
            fingerprint: fingerprintOf({ method: "POST", path: workflow, query: {}, body: input }),
          },
        };
  const request = { caller: ann, workflow, input, ...named, ...(priority === undefined ? {} : { priority }) };
  return flow.finish(plane.api.startWorkflow(request)) as Promise<StartAnswer>;
}

export const runOf = (answer: StartAnswer): RunId => {
  if (answer.kind !== "queued" && answer.kind !== "admitted") throw new Error(JSON.stringify(answer));
  return answer.runId;
};

/** The only job there is, once it is there. */
export async function nextJob({ flow, plane }: { flow: FlowWorld; plane: FlowPlane }): Promise<ClaimedJob> {
  return single(await flow.finish(plane.poll({ waitMs: 5_000 })));
}
