// Requests of workers over NATS: the same operations as over HTTP, with the same checks and the same answers.
import type { Operation } from "../api/routes.ts";
import type { Caller } from "../control/caller.ts";
import type { ControlApi } from "../control/create-api.ts";
import type { ClaimToken, JobId } from "../domain/job.ts";
import type { TenantId } from "../domain/tenant.ts";
import type { BusRequest } from "../ports/bus.ts";
import type { Head } from "./exchange.ts";
import type { HttpReply } from "./http-reply.ts";
import type { Responder } from "./responder.ts";

const operations = {
  poll: "pollJobs",
  heartbeat: "heartbeat",
  report: "reportResults",
} as const satisfies Record<BusRequest["request"], Operation>;

/** One message, or several where the jobs of a poll do not fit into one. */
export async function answerBusRequest(
  { api, responder }: { readonly api: ControlApi; readonly responder: Responder },
  request: BusRequest,
  /** Aborts when the gateway has stopped waiting for what is under way. */
  stopped: AbortSignal,
): Promise<readonly string[]> {
  const exchange = responder.begin(operations[request.request], headOf(request, stopped));
  const reply =
    (await responder.check(exchange)) ?? (await responder.answer(exchange, Buffer.from(request.body)));
  const text = reply.body ?? "null";
  const whole = messageOf(reply, text);
  if (Buffer.byteLength(whole) <= request.bytesMax) return [whole];
  return inParts(api, request, reply, JSON.parse(text) as PolledJobs);
}

function headOf({ sender, traceparent }: BusRequest, stopped: AbortSignal): Head {
  return {
    params: {},
    query: {},
    headers: { "content-type": "application/json", ...(traceparent === undefined ? {} : { traceparent }) },
    sender,
    repeated: undefined,
    address: "bus",
    isHidden: true,
    connection: () => stopped,
    // NATS does not say that a worker has gone away.
    onGone: () => {},
  };
}

function messageOf({ status, headers }: HttpReply, body: string, more = ""): string {
  const seconds = headers["retry-after"];
  const again = seconds === undefined ? "" : `,"retry_after_s":${Number(seconds)}`;
  return `{"status":${status}${again}${more},"body":${body}}`;
}

type PolledJobs = { readonly jobs: readonly { readonly job_id: string; readonly claim_token: string }[] };

/** As many jobs in each as fit. One that does not fit alone has failed: no worker on the bus could ever have it. */
async function inParts(
  api: ControlApi,
  request: BusRequest,
  reply: HttpReply,
  { jobs, ...rest }: PolledJobs,
): Promise<readonly string[]> {
  const write = (texts: readonly string[], more: string) => {
    const others = JSON.stringify({ ...rest, jobs: [] }).slice(0, -"]}".length);
    return messageOf(reply, `${others}${texts.join(",")}]}`, more);
  };
  const isMore = ',"more":true';
  const room = request.bytesMax - Buffer.byteLength(write([], isMore));
  const parts: string[][] = [[]];
  let used = 0;
  for (const job of jobs) {
    const text = JSON.stringify(job);
    const bytes = Buffer.byteLength(text) + 1;
    if (bytes > room) {
      await failTooLarge(api, request, { ...job, bytes });
      continue;
    }
    if (used + bytes > room) {
      parts.push([]);
      used = 0;
    }
    parts.at(-1)?.push(text);
    used += bytes;
  }
  return parts.map((texts, index) => write(texts, index === parts.length - 1 ? "" : isMore));
}

async function failTooLarge(
  api: ControlApi,
  { sender, tenant, bytesMax }: BusRequest,
  job: PolledJobs["jobs"][number] & { readonly bytes: number },
): Promise<void> {
  const caller: Caller = { tenant: tenant as TenantId, actor: sender, credential: sender };
  const message =
    `the job takes ${job.bytes} bytes, and a message on the bus holds ${bytesMax}: ` +
    "raise max_payload of the NATS server, or serve the topic by workers over HTTP";
  await api.reportResult({
    caller,
    jobId: job.job_id as JobId,
    token: job.claim_token as ClaimToken,
    outcome: "failed",
    error: { message, code: "payload_too_large" },
  });
}
