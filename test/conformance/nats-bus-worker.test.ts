// A worker over NATS against a scripted control plane: what it sends, what it believes, and what it does when nobody answers.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type NatsServer, startNatsServer } from "../../src/drills/servers/start-servers.ts";
import { InterlockApiError } from "../../src/sdk/index.ts";
import { type BusPeer, complaints, jobOf, openBusScene } from "../support/bus-peer.ts";
import { eventually } from "../support/sdk-world.ts";

let server: NatsServer;

beforeAll(async () => {
  server = await startNatsServer({ config: "max_payload: 65536" });
});
afterAll(() => server.stop());

/** Of a stop after every result had its answer. */
const nothingLeft = { handedBack: [], abandoned: [] };

describe.concurrent("a worker over the bus", () => {
  test("polls, works and reports with signed messages to the subjects of its tenant", async ({
    onTestFinished,
  }) => {
    const { peer, work, troubles } = await openBusScene(server, onTestFinished, { tenant: "acme.eu" });
    const traceparent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01";
    peer.offer(jobOf("Ada", { traceparent }));
    const { name } = work({ pool: "greeters", labels: { region: "eu" }, leaseMs: 5_000 });
    const result = await eventually("the result", () => peer.results[0]);
    expect(result.subject).toBe(`${peer.prefix}.results.acme=2Eeu.run-Ada:greet@1`);
    expect(result.body).toEqual({
      worker_id: name,
      job_id: "run-Ada:greet@1",
      claim_token: "token-Ada",
      status: "succeeded",
      output: { text: "Hello, Ada!" },
      traceparent,
    });
    expect(result.messageId).not.toBe("");
    expect(peer.polls[0]?.body).toMatchObject({
      worker_id: name,
      topics: ["hello"],
      max_jobs: 5,
      wait_ms: 5_000,
      lease_ms: 5_000,
      pool: "greeters",
      labels: { region: "eu" },
    });
    expect(troubles).toEqual([]);
  });

  test("reports each of many results in a message of its own, without waiting for the others", async ({
    onTestFinished,
  }) => {
    const { peer, work } = await openBusScene(server, onTestFinished);
    // None is answered before all have come.
    const answers: Array<() => void> = [];
    peer.on.result = ({ body }, answer) => {
      answers.push(() => answer({ job_id: body.job_id, kind: "accepted" }));
      if (answers.length === 5) for (const each of answers) each();
    };
    peer.offer(...["1", "2", "3", "4", "5"].map((name) => jobOf(name)));
    const started = work();
    await eventually("five results", () => peer.results.length === 5);
    await started.stop();
    expect(peer.results).toHaveLength(5);
  });

  test("puts a poll's jobs together that come in several messages", async ({ onTestFinished }) => {
    const { peer, work } = await openBusScene(server, onTestFinished);
    const plain = peer.on.poll;
    peer.on.poll = (_, answer) => {
      peer.on.poll = plain;
      answer({ status: 200, more: true, body: { jobs: [jobOf("1"), jobOf("2")] } });
      answer({ status: 200, more: true, body: { jobs: [jobOf("3")] } });
      answer({ status: 200, body: { jobs: [jobOf("4")] } });
    };
    work();
    await eventually("four results", () => peer.results.length === 4);
  });

  test("asks again under the same name when a poll is not answered, and confirms what it then gets", async ({
    onTestFinished,
  }) => {
    const { peer, work, troubles } = await openBusScene(server, onTestFinished);
    const plain = peer.on.poll;
    peer.on.poll = () => {
      peer.on.poll = plain;
      peer.offer(jobOf("late"));
    };
    work({ pollWaitMs: 100 });
    await eventually("the result", () => peer.results[0]);
    expect(peer.polls[1]?.body.poll_id).toBe(peer.polls[0]?.body.poll_id);
    expect(peer.heartbeats).not.toEqual([]);
    expect(complaints(troubles)).toMatch(/no answer within 2100 ms.*API key/);
  });

  test("keeps its claim and tells the program while the run is busy", async ({ onTestFinished }) => {
    const { peer, work, waited } = await openBusScene(server, onTestFinished);
    peer.on.heartbeat = ({ body }, answer) => {
      const [beat] = body.jobs as ReadonlyArray<{ readonly job_id: string }>;
      answer({ status: 200, body: { jobs: [{ job_id: beat?.job_id, kind: "extended", lease_ms: 900 }] } });
    };
    let tell = () => {};
    peer.on.result = ({ body: { job_id } }, answer) => {
      answer({ job_id, kind: "waiting", deliveries: 1, retry_after_ms: 300 });
      answer({ job_id, kind: "waiting", deliveries: 2, retry_after_ms: 412 });
      tell = () => answer({ job_id, kind: "accepted" });
    };
    peer.offer(jobOf("busy", { lease_ms: 900 }));
    const started = work();
    await eventually("longer than a lease", () => peer.heartbeats.length >= 4);
    expect(waited).toEqual([
      { jobId: "run-busy:greet@1", deliveries: 1, retryAfterMs: 300 },
      { jobId: "run-busy:greet@1", deliveries: 2, retryAfterMs: 412 },
    ]);
    const stopped = started.stop();
    tell();
    expect(await stopped).toMatchObject({ finished: 1, handedBack: [] });
    expect(peer.results).toHaveLength(1);
  });

  test("waits for the answer to its result when a heartbeat finds that the claim has ended", async ({
    onTestFinished,
  }) => {
    const { peer, work, troubles } = await openBusScene(server, onTestFinished);
    const answers: Array<() => void> = [];
    peer.on.result = ({ body: { job_id } }, answer) =>
      answers.push(() => answer({ job_id, kind: "accepted" }));
    // The engine has taken the result, and the gateway knows before the engine's answer is here.
    peer.on.heartbeat = ({ body }, answer) => {
      const [beat] = body.jobs as ReadonlyArray<{ readonly job_id: string }>;
      answer({ status: 200, body: { jobs: [{ job_id: beat?.job_id, kind: "lost" }] } });
    };
    peer.offer(jobOf("taken", { lease_ms: 900 }));
    const started = work();
    await eventually("a heartbeat", () => peer.heartbeats.length === 1);
    const stopped = started.stop();
    for (const answer of answers) answer();
    expect(await stopped).toEqual({ finished: 1, handedBack: [], abandoned: [] });
    expect(troubles).toEqual([]);
    expect(peer.heartbeats).toHaveLength(1);
  });

  test("sends a result again under another id when no engine answers it", async ({ onTestFinished }) => {
    const { peer, work, troubles } = await openBusScene(server, onTestFinished);
    const plain = peer.on.result;
    peer.on.result = () => {
      peer.on.result = plain;
    };
    peer.offer(jobOf("unheard"));
    const started = work();
    await eventually("it is sent again", () => peer.results.length === 2);
    expect(await started.stop()).toMatchObject(nothingLeft);
    expect(peer.results[1]?.body).toEqual(peer.results[0]?.body);
    expect(peer.results[1]?.messageId).not.toBe(peer.results[0]?.messageId);
    expect(troubles).toEqual([]);
  });

  test("sends a result again that was lost with its stream", async ({ onTestFinished }) => {
    const { peer, work } = await openBusScene(server, onTestFinished, { isTaking: false });
    await peer.makeStream();
    peer.offer(jobOf("lost"));
    const started = work();
    await eventually("it is stored", async () => (await peer.stored()) === 1);
    await peer.removeStream();
    await peer.takeResults();
    await eventually("it is sent again", () => peer.results.length === 1);
    expect(await started.stop()).toMatchObject(nothingLeft);
  });

  test("waits for a stream that is not there yet", async ({ onTestFinished }) => {
    const { peer, work } = await openBusScene(server, onTestFinished, { isTaking: false });
    peer.offer(jobOf("early"));
    const started = work();
    await eventually("it works", () => peer.polls.length >= 2);
    await peer.takeResults();
    await eventually("the result", () => peer.results.length === 1);
    expect(await started.stop()).toMatchObject(nothingLeft);
  });

  test("reports by a request when the stream takes nothing", async ({ onTestFinished }) => {
    const { peer, work, troubles } = await openBusScene(server, onTestFinished, { isTaking: false });
    peer.on.report = (_, answer) => {
      peer.on.report = (__, again) => again({ status: 200, body: { results: [{ kind: "accepted" }] } });
      answer({
        status: 200,
        body: { results: [{ kind: "retry", because: "run_busy", retry_after_ms: 50 }] },
      });
    };
    peer.offer(jobOf("1"));
    const started = work();
    await eventually("it is reported twice", () => peer.reports.length === 2);
    expect(await started.stop()).toMatchObject({ handedBack: [], abandoned: [] });
    const result = { job_id: "run-1:greet@1", claim_token: "token-1", status: "succeeded" };
    for (const { body } of peer.reports)
      expect(body).toMatchObject({ worker_id: started.name, results: [result] });
    expect(peer.reports[1]?.body.results).toMatchObject([{ delivery: 2 }]);
    expect(troubles).toEqual([]);
  });

  test("says what a result was refused for", async ({ onTestFinished }) => {
    const { peer, work, troubles } = await openBusScene(server, onTestFinished);
    peer.on.result = ({ body: { job_id } }, answer) => {
      if (job_id === "run-1:greet@1") answer({ job_id, kind: "refused", because: "deliveries_exhausted" });
      else answer({ job_id, kind: "duplicate" });
    };
    peer.offer(jobOf("1"), jobOf("2"));
    work();
    await eventually("both are told", () => troubles.length === 2);
    expect(troubles).toEqual([
      { kind: "result_refused", jobId: "run-1:greet@1", because: "deliveries_exhausted" },
      { kind: "result_refused", jobId: "run-2:greet@1", because: "duplicate" },
    ]);
  });

  test("fails an attempt whose output is larger than the server's max_payload, or than the control plane takes", async ({
    onTestFinished,
  }) => {
    const { peer, work } = await openBusScene(server, onTestFinished);
    peer.on.result = ({ body: { job_id, output } }, answer) =>
      answer(
        output === undefined
          ? { job_id, kind: "accepted" }
          : { job_id, kind: "refused", because: "payload_too_large" },
      );
    peer.offer(jobOf("70000"), jobOf("100"));
    const started = work({
      topics: { hello: (job) => "x".repeat(Number((job.input as { name: string }).name)) },
    });
    await eventually("both have failed", () => peer.results.length === 3);
    await started.stop();
    const failed = peer.results.map(({ body }) => body).filter(({ status }) => status === "failed");
    expect(failed).toHaveLength(2);
    for (const body of failed)
      expect(body).toMatchObject({ retryable: false, error: { code: "output_too_large" } });
  });

  test("takes no answer that is forged or whose time is over", async ({ onTestFinished }) => {
    const { peer, work, troubles } = await openBusScene(server, onTestFinished);
    const plain = peer.on.poll;
    const forged = { secretHash: "0".repeat(64) };
    const late = { expiresAtMs: Date.now() - 1_000 };
    peer.on.poll = (_, answer) => {
      answer({ status: 200, body: { jobs: [jobOf("forged")] } }, forged);
      answer({ status: 200, body: { jobs: [jobOf("expired")] } }, late);
      peer.on.poll = plain;
      peer.offer(jobOf("genuine"));
    };
    peer.on.result = ({ body: { job_id } }, answer) => {
      answer({ job_id, kind: "refused", because: "stale_claim" }, forged);
      answer({ job_id, kind: "refused", because: "stale_claim" }, late);
      answer({ job_id, kind: "accepted" });
    };
    const started = work({ pollWaitMs: 0 });
    await eventually("the genuine one is done", () => peer.results.length === 1);
    expect(await started.stop()).toMatchObject(nothingLeft);
    expect(peer.results[0]?.body.job_id).toBe("run-genuine:greet@1");
    expect(complaints(troubles)).toContain("an answer was ignored because its time was over");
    expect(troubles.filter(({ kind }) => kind === "result_refused")).toEqual([]);
  });

  test("ends with the control plane's refusal, and repeats what may succeed later", async ({
    onTestFinished,
  }) => {
    const { peer, work, troubles } = await openBusScene(server, onTestFinished);
    const refusal = (status: number, code: string, retryable: boolean) => ({
      status,
      retry_after_s: 0,
      body: { status, code, title: code, detail: code, retryable },
    });
    peer.on.poll = (_, answer) => {
      peer.on.poll = (__, again) => again(refusal(403, "forbidden", false));
      answer(refusal(503, "store_unavailable", true));
    };
    const error: unknown = await work().finished.then(undefined, (thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(InterlockApiError);
    expect(error).toMatchObject({ status: 403, code: "forbidden" });
    expect(complaints(troubles)).toContain("store_unavailable");
    await isGone(peer);
  });
});

describe.concurrent("stopping", () => {
  test("ends the open poll, hands back what is at work, and closes the connection", async ({
    onTestFinished,
  }) => {
    const { peer, work } = await openBusScene(server, onTestFinished);
    peer.offer(jobOf("long"));
    const started = work({ topics: { hello: (job) => untilStopped(job.signal) } });
    await eventually(
      "it works, and polls for more",
      () => started.running() === 1 && peer.polls.length === 2,
    );
    expect(await peer.hasListener(peer.polls[0]?.replyTo ?? "")).toBe(true);
    const sinceMs = performance.now();
    expect(await started.stop({ graceMs: 0 })).toEqual({
      finished: 0,
      handedBack: ["run-long:greet@1"],
      abandoned: [],
    });
    expect(performance.now() - sinceMs).toBeLessThan(2_000);
    expect(peer.results.map(({ body }) => body.status)).toEqual(["handed_back"]);
    await isGone(peer);
    await started.finished;
  });

  test("hears of jobs that the open poll still got, although another gateway answers its repeat", async ({
    onTestFinished,
  }) => {
    const { peer, work } = await openBusScene(server, onTestFinished);
    // The first gateway has the poll; the repeats go to others, until one comes to it.
    peer.on.poll = (first, answer) => {
      let repeats = 0;
      peer.on.poll = ({ body }, answerAgain) => {
        expect(body).toMatchObject({ poll_id: first.body.poll_id, wait_ms: 0 });
        repeats += 1;
        answerAgain({ status: 200, body: { jobs: [] } });
        if (repeats === 3) answer({ status: 200, body: { jobs: [jobOf("unheard")] } });
      };
    };
    const started = work();
    await eventually("it polls", () => peer.polls.length === 1);
    expect(await started.stop()).toMatchObject({ handedBack: ["run-unheard:greet@1"] });
  });

  test("gives up a hand-back that nobody takes after five seconds", async ({ onTestFinished }) => {
    const { peer, work } = await openBusScene(server, onTestFinished);
    peer.on.result = () => {};
    peer.offer(jobOf("stuck"));
    const started = work({ topics: { hello: (job) => untilStopped(job.signal) } });
    await eventually("it works", () => started.running() === 1);
    const sinceMs = performance.now();
    expect(await started.stop({ graceMs: 0 })).toMatchObject({ abandoned: ["run-stuck:greet@1"] });
    expect(performance.now() - sinceMs).toBeLessThan(8_000);
  });
});

async function isGone(peer: BusPeer): Promise<void> {
  const { replyTo = "" } = peer.polls[0] ?? {};
  await eventually("the connection is closed", async () => !(await peer.hasListener(replyTo)));
}

function untilStopped(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
}
