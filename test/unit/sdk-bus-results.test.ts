// Results over the bus, message by message: what is sent, when it is sent again, under which id, and what ends it.
import { describe, expect, test } from "vitest";
import { createBusResults, type WaitingResult } from "../../src/sdk/worker/bus-results.ts";
import type { Result } from "../../src/sdk/worker/results.ts";
import { hold, ids } from "../support/sdk-held.ts";
import { bodyOf, type Script, type SentMessage, scriptedLink } from "../support/sdk-link.ts";
import { testRuntime } from "../support/sdk-runtime.ts";

const stored = { kind: "message", value: { stream: "s", seq: 1 } } as const;
const said = (value: object) => ({ kind: "message", value }) as const;
const isRequest = ({ message }: SentMessage) => message.subject === "i.requests.acme.report";

/** Where the control plane answers a publication. */
const answersTo = ({ message }: SentMessage) => message.more?.["Interlock-Answer-To"] ?? "";

/** JetStream takes it, and an engine says so. */
const answered =
  (...values: readonly object[]): Script =>
  (sent, link) => {
    link.say(sent.replyTo, stored);
    for (const value of values) link.say(answersTo(sent), said(value));
  };

function reporting(
  script: Script,
  given: { claim?: object; result?: Partial<Result>; bytesMax?: number } = {},
) {
  const around = testRuntime();
  const link = scriptedLink(script);
  link.bytesMax = given.bytesMax ?? link.bytesMax;
  const waits: WaitingResult[] = [];
  const results = createBusResults(around, link, { name: "w", onWaiting: (waiting) => waits.push(waiting) });
  const { held } = hold({ lease_ms: 600_000, ...given.claim }, around);
  held.done();
  const result: Result = { ...ids, status: "succeeded", output: 1, ...given.result };
  return { around, link, waits, results, held, end: () => results.report(held, result) };
}

describe("a result", () => {
  test("is one message with its own id, to the subject of its job, and both listeners end with it", async () => {
    const { around, link, end } = reporting(answered({ kind: "accepted" }), {
      claim: { traceparent: "00-1" },
    });
    const nowMs = around.now().wallMs;
    expect(await end()).toEqual({ kind: "accepted" });
    expect(link.sent).toEqual([
      {
        message: {
          subject: "i.results.acme.run_1:pay@2",
          body: JSON.stringify({
            worker_id: "w",
            ...ids,
            status: "succeeded",
            output: 1,
            traceparent: "00-1",
          }),
          messageId: "token-of-test-00000001",
          expiresAtMs: nowMs + 601_200_000,
          more: { "Interlock-Answer-To": "control plane 1" },
        },
        replyTo: "stream 2",
      },
    ]);
    expect([...link.listening.keys()]).toEqual([]);
    expect(around.pauses).toEqual([]);
  });

  test.each([
    [{ kind: "accepted" }, { kind: "accepted" }],
    [
      { kind: "refused", because: "stale_claim" },
      { kind: "refused", because: "stale_claim" },
    ],
    [{ kind: "refused" }, { kind: "refused", because: "refused" }],
    [
      { kind: "duplicate", because: "reported_otherwise" },
      { kind: "refused", because: "reported_otherwise" },
    ],
    [{ kind: "duplicate" }, { kind: "refused", because: "duplicate" }],
  ])("that is answered by %j ended as %j", async (value, end) => {
    const reported = reporting(answered(value));
    expect(await reported.end()).toEqual(end);
    expect([reported.link.sent.length, reported.waits]).toEqual([1, []]);
  });

  test("may be answered before it is acknowledged", async () => {
    const { end, link } = reporting((sent, to) => to.say(answersTo(sent), said({ kind: "accepted" })));
    expect(await end()).toEqual({ kind: "accepted" });
    expect(link.sent).toHaveLength(1);
  });

  test("that waits for its busy run tells how often it was delivered, and is waited for that much longer", async () => {
    const { end, waits, around } = reporting(
      answered(
        { kind: "waiting", deliveries: 3, retry_after_ms: 700 },
        { kind: "waiting" },
        { kind: "accepted" },
      ),
    );
    expect(await end()).toEqual({ kind: "accepted" });
    expect(waits).toEqual([
      { jobId: "run_1:pay@2", deliveries: 3, retryAfterMs: 700 },
      { jobId: "run_1:pay@2", deliveries: 1, retryAfterMs: 0 },
    ]);
    expect(around.pauses).toEqual([]);
    const silent = reporting((sent, link) => {
      if (link.sent.length > 1) return answered({ kind: "accepted" })(sent, link);
      answered({ kind: "waiting", retry_after_ms: 700 })(sent, link);
    });
    expect(await silent.end()).toEqual({ kind: "accepted" });
    expect(silent.around.pauses).toEqual([5_700]);
  });
});

describe("a result that is not stored", () => {
  const once =
    (first: Script): Script =>
    (sent, link) =>
      link.sent.length === 1 ? first(sent, link) : answered({ kind: "accepted" })(sent, link);

  test.each<[string, Script, readonly number[]]>([
    ["is not acknowledged", () => {}, [2_000, 100]],
    [
      "is refused by the stream",
      (sent, link) => link.say(sent.replyTo, said({ error: { description: "full" } })),
      [100],
    ],
    ["finds no stream", (sent, link) => link.say(sent.replyTo, { kind: "no_responders" }), [100]],
    [
      "is acknowledged by nobody that is trusted",
      (sent, link) => link.say(sent.replyTo, { kind: "distrusted", because: "x" }),
      [100],
    ],
    ["loses its connection", (sent, link) => link.say(sent.replyTo, { kind: "lost" }), [100]],
  ])("since it %s is sent again under the same id", async (_, first, pauses) => {
    const { end, link, around } = reporting(once(first));
    expect(await end()).toEqual({ kind: "accepted" });
    expect(link.sent.map(({ message }) => message.messageId)).toEqual([
      "token-of-test-00000001",
      "token-of-test-00000001",
    ]);
    expect(around.pauses).toEqual(pauses);
  });

  test("three times is asked of a gateway, and goes on over the stream if that does not answer either", async () => {
    const { end, link, around } = reporting((sent, to) => {
      if (isRequest(sent)) to.say(sent.replyTo, { kind: "no_responders" });
      else if (to.sent.length < 7) to.say(sent.replyTo, { kind: "no_responders" });
      else answered({ kind: "accepted" })(sent, to);
    });
    expect(await end()).toEqual({ kind: "accepted" });
    expect(link.sent.map(isRequest)).toEqual([false, false, false, true, false, true, false]);
    expect(around.pauses).toEqual([100, 200, 400, 800]);
  });

  test("is answered by a gateway for good", async () => {
    const { end, link } = reporting(
      (sent, to) =>
        isRequest(sent)
          ? to.say(sent.replyTo, said({ status: 200, body: { results: [{ kind: "accepted" }] } }))
          : to.say(sent.replyTo, { kind: "no_responders" }),
      { claim: { traceparent: "00-1" } },
    );
    expect(await end()).toEqual({ kind: "accepted" });
    const request = link.sent.at(-1) as SentMessage;
    expect([bodyOf(request), request.message.more]).toEqual([
      { worker_id: "w", results: [{ ...ids, status: "succeeded", output: 1 }] },
      { traceparent: "00-1" },
    ]);
  });

  test("is reported again to a gateway that wants it so, as the report that it is", async () => {
    const requests: SentMessage[] = [];
    const { end } = reporting((sent, to) => {
      if (!isRequest(sent)) return to.say(sent.replyTo, { kind: "no_responders" });
      requests.push(sent);
      const busy = { kind: "retry", because: "run_busy", retry_after_ms: 300 };
      const results = [requests.length === 1 ? busy : { kind: "accepted" }];
      to.say(sent.replyTo, said({ status: 200, body: { results } }));
    });
    expect(await end()).toEqual({ kind: "accepted" });
    expect(requests.map((each) => (bodyOf(each).results as unknown[])[0])).toEqual([
      { ...ids, status: "succeeded", output: 1 },
      { ...ids, status: "succeeded", output: 1, delivery: 2, waited_ms: 300 },
    ]);
  });

  test("is given up when its user may not send it", async () => {
    const error = new Error("no permission");
    const forbidden = reporting((sent, link) => link.say(sent.replyTo, { kind: "forbidden", error }));
    expect(await forbidden.end()).toEqual({ kind: "given_up", error });
    const mistaken = reporting(() => {
      throw error;
    });
    expect(await mistaken.end()).toEqual({ kind: "given_up", error });
  });

  test("is given up once its claim has been over for as long as it stood", async () => {
    const { end, link } = reporting((sent, to) => to.say(sent.replyTo, { kind: "no_responders" }), {
      claim: { lease_ms: 300 },
    });
    expect(await end()).toMatchObject({
      kind: "given_up",
      error: { message: expect.stringContaining("there is no stream for it") as string, reason: "timeout" },
    });
    expect(link.sent.filter((sent) => !isRequest(sent)).length).toBeGreaterThan(2);
  });
});

describe("a result that is stored and not answered", () => {
  test("is sent again under another id, later each time, and asked of a gateway after the second", async () => {
    const { end, link, around } = reporting((sent, to) => {
      if (isRequest(sent)) to.say(sent.replyTo, { kind: "no_responders" });
      else if (to.sent.filter((each) => !isRequest(each)).length < 6) to.say(sent.replyTo, stored);
      else answered({ kind: "accepted" })(sent, to);
    });
    expect(await end()).toEqual({ kind: "accepted" });
    expect(around.pauses).toEqual([5_000, 10_000, 20_000, 30_000, 30_000]);
    expect(link.sent.map(isRequest)).toEqual([
      false,
      false,
      true,
      false,
      true,
      false,
      true,
      false,
      true,
      false,
    ]);
    const published = link.sent.filter((sent) => !isRequest(sent)).map(({ message }) => message.messageId);
    expect(new Set(published).size).toBe(6);
  });
});

describe("a result that is too large", () => {
  const failed = {
    ...{ worker_id: "w", ...ids, status: "failed", retryable: false },
    error: {
      code: "output_too_large",
      message: expect.stringContaining("the output is too large to be kept") as string,
    },
  };
  const output = "x".repeat(2_000);

  test("for the server fails its attempt instead, and is not sent as it is", async () => {
    const { end, link } = reporting(answered({ kind: "accepted" }), { result: { output }, bytesMax: 1_000 });
    expect(await end()).toEqual({ kind: "accepted" });
    expect(link.sent.map(bodyOf)).toEqual([failed]);
  });

  test("for an engine fails its attempt, once", async () => {
    const tooLarge = { kind: "refused", because: "payload_too_large" };
    const { end, link } = reporting(answered(tooLarge), { result: { output } });
    expect(await end()).toEqual({ kind: "refused", because: "payload_too_large" });
    expect(link.sent.map(bodyOf)).toEqual([expect.objectContaining({ status: "succeeded" }), failed]);
  });

  test("for a gateway fails its attempt", async () => {
    const { end } = reporting(
      (sent, to) => {
        if (!isRequest(sent)) return to.say(sent.replyTo, { kind: "no_responders" });
        const [item] = bodyOf(sent).results as Array<{ status: string }>;
        const isLarge = item?.status === "succeeded";
        const body = isLarge ? { code: "payload_too_large" } : { results: [{ kind: "accepted" }] };
        to.say(sent.replyTo, said({ status: isLarge ? 413 : 200, body }));
      },
      { result: { output } },
    );
    expect(await end()).toEqual({ kind: "accepted" });
  });
});

test("a job is handed back over the stream, and given up after five seconds", async () => {
  const { results, held, link, around } = reporting(answered({ kind: "accepted" }));
  expect(await results.handBack(held)).toEqual({ kind: "accepted" });
  expect(link.sent.map(bodyOf)).toEqual([{ worker_id: "w", ...ids, status: "handed_back" }]);
  const away = reporting((sent, to) => to.say(sent.replyTo, { kind: "no_responders" }));
  const began = away.around.now().monotonicMs;
  expect(await away.results.handBack(away.held)).toMatchObject({ kind: "given_up" });
  expect(away.around.now().monotonicMs - began).toBe(5_000);
  expect(around.pauses).toEqual([]);
});
