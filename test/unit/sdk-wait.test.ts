// Waiting for a run: when it is looked at, what ends the wait, and how it goes on where streams do not get through.
import { describe, expect, test } from "vitest";
import { createClientIn } from "../../src/sdk/client.ts";
import { InterlockApiError, WaitTimeout, waitForRun } from "../../src/sdk/index.ts";
import { hasEnded } from "../../src/sdk/wait-for-run.ts";
import { testRuntime } from "../support/sdk-runtime.ts";

type Stream = "ends" | "hangs" | "busy" | "refused" | "lost";

/** Looks are answered by these states in order, by the last one from then on. */
function scripted(states: readonly string[], stream: Stream = "ends") {
  const runtime = testRuntime();
  const asked: string[] = [];
  const problem = (status: number, code: string, retryable: boolean) =>
    Response.json({ code, retryable }, { status });
  const fetch = ((url: string, { signal }: RequestInit) => {
    const path = url.slice("http://test/api/v1/workflow-runs/".length);
    asked.push(path);
    if (!path.endsWith("/events")) {
      const looks = asked.filter((each) => !each.endsWith("/events")).length;
      const status = states[Math.min(looks, states.length) - 1];
      return Promise.resolve(
        status === "gone" ? problem(404, "run_not_found", false) : Response.json({ run_id: "r", status }),
      );
    }
    if (stream === "ends") return Promise.resolve(new Response(null, { status: 204 }));
    if (stream === "busy") return Promise.resolve(problem(503, "overloaded", true));
    if (stream === "refused") return Promise.resolve(problem(403, "forbidden", false));
    if (stream === "lost") return Promise.reject(new TypeError("fetch failed"));
    return new Promise((_resolve, reject) => {
      signal?.addEventListener("abort", () => reject(new Error("aborted")));
    });
  }) as unknown as typeof globalThis.fetch;
  return { client: createClientIn(runtime, { url: "http://test", fetch }), runtime, asked };
}

const settled = async () => {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};

test.each([
  ["pending", false],
  ["running", false],
  ["waiting", false],
  ["succeeded", true],
  ["failed", true],
  ["denied", true],
  ["cancelled", true],
  ["timed_out", true],
])("a run that is %s has ended: %s", async (status, isOver) => {
  expect(hasEnded({ status })).toBe(isOver);
  const { client, asked } = scripted([status, "succeeded"]);
  expect(await client.runs.wait("r")).toEqual({ run_id: "r", status: isOver ? status : "succeeded" });
  expect(asked).toEqual(isOver ? ["r"] : ["r", "r/events", "r"]);
});

describe("a wait", () => {
  test("looks, follows, and looks again, ever more slowly up to five seconds", async () => {
    const { client, runtime, asked } = scripted([...Array.from({ length: 9 }, () => "running"), "failed"]);
    expect((await waitForRun(client, "r")).status).toBe("failed");
    expect(runtime.pauses).toEqual(
      [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000].map((ms) => ms * 0.75),
    );
    expect(asked).toEqual([...Array.from({ length: 9 }, () => ["r", "r/events"]).flat(), "r"]);
  });

  test.each<Stream>(["busy", "lost"])("goes on where streams do not get through: %s", async (stream) => {
    const { client, asked } = scripted(["running", "running", "succeeded"], stream);
    expect((await client.runs.wait("r")).status).toBe("succeeded");
    expect(asked).toEqual(["r", "r/events", "r", "r/events", "r"]);
  });

  test("ends with what its key may not, and with a run that is not there", async () => {
    await expect(scripted(["running"], "refused").client.runs.wait("r")).rejects.toMatchObject({
      code: "forbidden",
    });
    const gone = scripted(["running", "gone"]).client.runs.wait("r");
    await expect(gone).rejects.toBeInstanceOf(InterlockApiError);
  });

  test("looks again after half a minute, however quiet the stream is", async () => {
    const { client, runtime, asked } = scripted(["running", "succeeded"], "hangs");
    const waiting = client.runs.wait("r");
    await settled();
    runtime.advance(29_999);
    await settled();
    expect(asked).toEqual(["r", "r/events"]);
    runtime.advance(1);
    expect((await waiting).status).toBe("succeeded");
    expect(asked).toEqual(["r", "r/events", "r"]);
  });

  test("of a second ends after it, to the millisecond, with the run as it was seen", async () => {
    const { client, runtime } = scripted(["running"], "hangs");
    let over: unknown;
    const waiting = client.runs.wait("r", { timeoutMs: 1_000 }).catch((error: unknown) => {
      over = error;
    });
    await settled();
    runtime.advance(999);
    await settled();
    expect(over).toBeUndefined();
    runtime.advance(1);
    await waiting;
    expect(over).toBeInstanceOf(WaitTimeout);
    expect({ ...(over as WaitTimeout), message: (over as WaitTimeout).message }).toEqual({
      ...{ name: "WaitTimeout", runId: "r", run: { run_id: "r", status: "running" } },
      message: 'run r is running after 1000 ms of waiting; "why" tells what it waits for',
    });
    expect(new WaitTimeout("r", undefined, 5).message).toBe(
      'run r has not been seen after 5 ms of waiting; "why" tells what it waits for',
    );
  });

  test("ends when its caller leaves, with the caller's reason, though its time is over too", async () => {
    const { client, runtime } = scripted(["running"], "hangs");
    const leaving = new AbortController();
    const waiting = client.runs
      .wait("r", { timeoutMs: 1_000, signal: leaving.signal })
      .catch((error) => error);
    await settled();
    leaving.abort(new Error("gone home"));
    runtime.advance(1_000);
    expect(await waiting).toMatchObject({ message: "gone home" });
  });
});
