// What drills about public locks share: refusals as values, a resource behind a fence guard, an owner that cannot renew.
import { createServer, type Server } from "node:http";
import { createClient } from "../../sdk/client.ts";
import { InterlockApiError, type Problem } from "../../sdk/client-errors.ts";
import { fenceField, fenceGuard } from "../../sdk/fence.ts";
import { runtime } from "../../sdk/runtime.ts";
import { type Lease, withLock } from "../../sdk/with-lock.ts";
import type { DrillTenant } from "../target/target.ts";

type Asked<Value> =
  | { readonly kind: "answered"; readonly value: Value }
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly code: string;
      /** For people. */
      readonly title: string;
      /** Of a lock that is busy: who has it. */
      readonly holder: string | undefined;
    };

/** No answer at all is neither: it is thrown. */
export async function asked<Value>(request: Promise<Value>): Promise<Asked<Value>> {
  try {
    return { kind: "answered", value: await request };
  } catch (error) {
    if (!(error instanceof InterlockApiError)) throw error;
    const { title, holder } = error.problem as Problem & { readonly holder?: { readonly owner?: string } };
    return { kind: "refused", status: error.status, code: error.code, title, holder: holder?.owner };
  }
}

/** As a step shows it. */
export function describeOutcome<Value>(outcome: Asked<Value>, answered: string): string {
  if (outcome.kind === "answered") return answered;
  const { status, title, holder } = outcome;
  return `${status} ${title}${holder === undefined ? "" : `, held by ${holder}`}`;
}

export function isNotOwned(outcome: Asked<unknown>): boolean {
  return outcome.kind === "refused" && outcome.code === "lock_not_owned";
}

export function isHeldBy(outcome: Asked<unknown>, owner: string): boolean {
  return outcome.kind === "refused" && outcome.code === "lock_unavailable" && outcome.holder === owner;
}

/** One write that arrived, in the order of arrival. */
export type SinkWrite = {
  readonly atMs: number;
  readonly by: string;
  readonly fence: number;
  readonly accepted: boolean;
};

export type FencedSink = Listening & { readonly writes: readonly SinkWrite[] };

/** Times are counted from `startedMs`, by the monotonic clock. */
export async function openFencedSink(startedMs: number): Promise<FencedSink> {
  const guard = fenceGuard();
  const writes: SinkWrite[] = [];
  const server = createServer((request, response) => {
    const note = (accepted: boolean) =>
      writes.push({
        atMs: runtime.now().monotonicMs - startedMs,
        by: String(request.headers[writerField]),
        fence: Number(request.headers[fenceField]),
        accepted,
      });
    void guard.judge(request.headers).then((refusal) => {
      note(refusal === undefined);
      response.statusCode = refusal?.status ?? 204;
      response.end();
    });
  });
  return { ...(await listenHere(server)), writes };
}

/** Who writes, for people. */
const writerField = "x-writer";

/** The status that the sink answers: 204, or 412 when a newer owner has written. */
export async function writeTo(
  sinkUrl: string,
  by: string,
  fenceHeaders: Readonly<Record<string, string>>,
): Promise<number> {
  const response = await fetch(sinkUrl, { method: "POST", headers: { ...fenceHeaders, [writerField]: by } });
  await response.arrayBuffer();
  return response.status;
}

/** Exclusion as the sink sees it: what it accepts never goes back to an older owner. */
export function isInFenceOrder(writes: readonly SinkWrite[]): boolean {
  const accepted = writes.filter((write) => write.accepted);
  return accepted.every(({ fence }, index) => fence >= (accepted[index - 1]?.fence ?? 0));
}

export type Listening = { readonly url: string; close(): Promise<void> };

/** Longer than any pause of a drill. */
const keptOpenMs = 600_000;

export async function listenHere(server: Server): Promise<Listening> {
  // A client that was paused finds its connection as it left it: a closed one would fail its call before it is judged.
  server.keepAliveTimeout = keptOpenMs;
  const port = await new Promise<number>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : 0);
    });
  });
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

type DroppedRenewals = {
  readonly token: string;
  readonly fence: number;
  /** When the lock was granted, and when the SDK stopped the work, by the monotonic clock. */
  readonly grantedMs: number;
  readonly lostMs: Promise<number>;
  renewalsFailed(): number;
};

type HeldLock = {
  readonly resource: string;
  readonly owner: string;
  readonly ttlMs: number;
  readonly signal: AbortSignal;
};

export function holdWithoutRenewals(
  tenant: DrillTenant,
  { resource, owner, ttlMs, signal }: HeldLock,
): Promise<DroppedRenewals> {
  const nowMs = () => runtime.now().monotonicMs;
  let failed = 0;
  const dropping: typeof fetch = (input, init) => {
    if (!String(input).endsWith("/locks/renew")) return fetch(input, init);
    failed += 1;
    return Promise.reject(new TypeError("the drill lets no renewal through"));
  };
  const client = createClient({ url: tenant.client.url, apiKey: tenant.adminKey, fetch: dropping });
  return new Promise((resolve, reject) => {
    const lostMs = new Promise<number>((tell) => {
      const work = async ({ token, fence, signal: stop }: Lease) => {
        resolve({ token, fence, grantedMs: nowMs(), lostMs, renewalsFailed: () => failed });
        await runtime.sleep(10 * ttlMs, stop);
      };
      const options = { ttlMs, owner, signal, onLost: () => tell(nowMs()) };
      // It rejects with the loss, which was reported already, or because there never was a lock.
      withLock(client, resource, work, options).catch(reject);
    });
  });
}
