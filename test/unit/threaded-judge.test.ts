// The thread that judges definitions: its time limit, its end, its queue. What it judges is planted.
import { afterEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/system/system.ts";
import { createThreadedJudge, type ThreadedJudgeOptions } from "../../src/adapters/threaded-judge.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { DefinitionJudge } from "../../src/ports/ports.ts";
import { silentLog } from "../support/silent-log.ts";

const acme = "acme" as TenantId;
const globex = "globex" as TenantId;

let judge: DefinitionJudge;
afterEach(() => judge.close());

function open(options: Partial<ThreadedJudgeOptions> = {}): DefinitionJudge {
  judge = createThreadedJudge({
    clock: systemClock,
    log: silentLog,
    waiting: { max: 500, ownerMax: 300 },
    timeoutMs: 20_000,
    program: new URL("../support/planted-judge-thread.mjs", import.meta.url),
    ...options,
  });
  return judge;
}

describe("the judging thread", () => {
  test("answers 503 when one definition takes too long, and judges the next in a new thread", async () => {
    const { judge: ask } = open({ timeoutMs: 300 });
    const [endless, next, other] = await Promise.all([
      ask(acme, { does: "runs for ever" }),
      ask(acme, { does: "is judged" }),
      ask(globex, { does: "is judged" }),
    ]);
    expect(endless).toEqual({ kind: "overloaded", cause: "judging took longer than 300 ms" });
    expect([next.kind, other.kind]).toEqual(["workflow_invalid", "workflow_invalid"]);
  });

  test("is replaced when a definition ends it, which is not tried again", async () => {
    const { judge: ask } = open();
    for (const does of ["throws", "exits"]) {
      const [broken, next] = await Promise.all([ask(acme, { does }), ask(acme, { does: "is judged" })]);
      expect(broken.kind).toBe("overloaded");
      expect(next.kind).toBe("workflow_invalid");
    }
  });

  test("that cannot start answers every definition, one start each", async () => {
    const { judge: ask } = open({ program: new URL("../support/no-such-thread.mjs", import.meta.url) });
    const answers = await Promise.all([ask(acme, {}), ask(acme, {}), ask(globex, {})]);
    expect(answers.map(({ kind }) => kind)).toEqual(["overloaded", "overloaded", "overloaded"]);
  });

  test("lets tenants take turns: one definition waits for at most two of a flood", async () => {
    const { judge: ask } = open();
    await ask(acme, { does: "is judged" });
    let judged = 0;
    const flood = Array.from({ length: 200 }, () =>
      ask(acme, { does: "is judged" }).then(() => (judged += 1)),
    );
    const before = judged;
    await ask(globex, { does: "is judged" });
    expect(judged - before).toBeLessThanOrEqual(2);
    await Promise.all(flood);
    expect(judged).toBe(200);
  });

  test("has a bound for each tenant and one for all", async () => {
    const { judge: ask } = open({ waiting: { ownerMax: 2, max: 3 }, timeoutMs: 500 });
    const answers = [acme, acme, acme, globex, globex].map((tenant) => ask(tenant, { does: "is judged" }));
    const kinds = (await Promise.all(answers)).map(({ kind }) => kind);
    expect(kinds).toEqual([
      "workflow_invalid",
      "workflow_invalid",
      "too_many_requests",
      "workflow_invalid",
      "overloaded",
    ]);
  });

  test("is closed while it judges: callers that wait are answered", async () => {
    const { judge: ask } = open();
    await ask(acme, { does: "is judged" });
    const answers = [ask(acme, { does: "runs for ever" }), ask(acme, { does: "is judged" })];
    await judge.close();
    expect((await Promise.all(answers)).map(({ kind }) => kind)).toEqual(["overloaded", "overloaded"]);
    expect(await ask(acme, {})).toEqual({ kind: "overloaded", cause: "the server is stopping" });
  });
});
