// One start of a run over HTTP and what came of it, as a value: drills count refusals instead of throwing them.
import type { Client } from "../sdk/client.ts";
import { InterlockApiError, InterlockConnectionError } from "../sdk/client-errors.ts";
import { runtime } from "../sdk/runtime.ts";

export type StartTry = { readonly sentMs: number; readonly tookMs: number } & (
  | { readonly kind: "started"; readonly runId: string; readonly replayed: boolean }
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly code: string;
      readonly retryAfterMs: number | undefined;
    }
  /** Nobody knows what became of it; with the same key it may be sent again. */
  | { readonly kind: "no_answer"; readonly why: string }
);

type StartWanted = {
  readonly workflow: string;
  readonly key?: string;
  readonly input?: Readonly<Record<string, unknown>>;
  readonly signal?: AbortSignal;
};

export async function tryStart(
  client: Client,
  { workflow, key, input = {}, signal }: StartWanted,
): Promise<StartTry> {
  const sentMs = runtime.now().monotonicMs;
  const took = () => ({ sentMs, tookMs: runtime.now().monotonicMs - sentMs });
  try {
    const { run_id, replayed } = await client.runs.start(workflow, input, { idempotencyKey: key, signal });
    return { kind: "started", runId: run_id, replayed, ...took() };
  } catch (error) {
    if (error instanceof InterlockApiError) {
      const { status, code, retryAfterMs } = error;
      return { kind: "refused", status, code, retryAfterMs, ...took() };
    }
    if (error instanceof InterlockConnectionError) return { kind: "no_answer", why: error.reason, ...took() };
    throw error;
  }
}

/** As in: `200`, `429 max_concurrent_runs_reached`, `no answer (lost)`. */
export function shownTry(tried: StartTry): string {
  switch (tried.kind) {
    case "started":
      return tried.replayed ? "200, replayed" : "200";
    case "refused":
      return `${tried.status} ${tried.code}`;
    case "no_answer":
      return `no answer (${tried.why})`;
  }
}
