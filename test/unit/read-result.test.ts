// A result on the bus is read by the same rules as one over HTTP, and what publishes results writes what is read.
import { describe, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/system/system.ts";
import { callerName } from "../../src/api/fields.ts";
import { resultItem } from "../../src/api/schemas.ts";
import { readResult, writeResult } from "../../src/control/jobs/read-result.ts";
import type { ClaimToken, JobId } from "../../src/domain/job.ts";

const jobId = "run_01_abcdefgh:a@1";
const right = { worker_id: "w", job_id: jobId, claim_token: "t", status: "succeeded" };
const error = { message: "no", code: "c" };

const read = (item: object) => readResult(systemClock, jobId, JSON.stringify(item));

/** What the API says of the same fields. */
function isTakenOverHttp({ worker_id, ...item }: { readonly worker_id?: unknown }): boolean {
  return callerName.safeParse(worker_id).success && resultItem.safeParse(item).success;
}

describe("a result over the bus", () => {
  const items: readonly object[] = [
    right,
    { ...right, output: { nested: [1, null, true] } },
    { ...right, output: null },
    { ...right, status: "failed", error, retryable: false },
    { ...right, status: "failed", error: { message: "" } },
    { ...right, status: "handed_back" },
    { ...right, traceparent: "unreadable" },
    { ...right, traceparent: "x".repeat(256) },
    { ...right, traceparent: "x".repeat(257) },
    { ...right, traceparent: 1 },
    { ...right, status: "done" },
    { ...right, status: 1 },
    { ...right, retryable: "no" },
    { ...right, error: "no" },
    { ...right, error: null },
    { ...right, error: [] },
    { ...right, error: {} },
    { ...right, error: { message: "x".repeat(4_096) } },
    { ...right, error: { message: "x".repeat(4_097) } },
    { ...right, error: { ...error, code: "x".repeat(128) } },
    { ...right, error: { ...error, code: "x".repeat(129) } },
    { ...right, error: { ...error, more: 1 } },
    { ...right, surprise: 1 },
    { ...right, toString: 1 },
    { ...right, claim_token: "" },
    { ...right, claim_token: "x".repeat(128) },
    { ...right, claim_token: "x".repeat(129) },
    { ...right, worker_id: "" },
    { ...right, worker_id: "two words" },
    { ...right, worker_id: "w".repeat(128) },
    { ...right, worker_id: "w".repeat(129) },
    { ...right, worker_id: undefined },
    { ...right, claim_token: undefined },
    { ...right, status: undefined },
    [],
  ];

  test.each(items.map((item) => [JSON.stringify(item).slice(0, 120), item] as const))(
    "is taken or not as over HTTP: %s",
    async (_name, item) => {
      const sent = JSON.parse(JSON.stringify(item));
      expect((await read(item)) !== undefined).toBe(isTakenOverHttp(sent));
    },
  );

  test.each(["", "null", "1", "{", `{"worker_id":"w","worker_id":"w"}`, `${JSON.stringify(right)} x`])(
    "that is %s is none",
    async (text) => {
      expect(await readResult(systemClock, jobId, text)).toBeUndefined();
    },
  );

  test("of another job than its subject names is none", async () => {
    expect(await readResult(systemClock, "run_01_abcdefgh:b@1", JSON.stringify(right))).toBeUndefined();
    expect(await readResult(systemClock, "x", JSON.stringify({ ...right, job_id: "x" }))).toBeUndefined();
  });

  test.each([
    { outcome: "succeeded", output: { text: "ä" } },
    { outcome: "failed", error },
    { outcome: "failed_retryable", error },
    { outcome: "handed_back" },
  ] as const)("is read as it was written: %o", async (about) => {
    const report = { jobId: jobId as JobId, token: "t" as ClaimToken, worker: "w", ...about };
    const result = await readResult(systemClock, jobId, writeResult(report));
    expect(result?.report).toEqual(report);
    const bytes = "output" in about ? JSON.stringify(about.output).length + 1 : "null".length;
    expect(result?.outputBytes).toBe(bytes);
  });
});
