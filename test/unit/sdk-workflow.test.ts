// Workflows in TypeScript: the definition that comes out, run for real, and the types that hold on the way.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defineWorkflow, type } from "../../src/sdk/index.ts";
import { openSdkWorld, type SdkWorld } from "../support/sdk-world.ts";

type Item = { readonly sku: string; readonly price: number };

const refund = defineWorkflow({
  id: "typed-refund",
  risk: "high",
  input: type<{ order: string; amount: number }>({ type: "object", required: ["order", "amount"] }),
  steps: ({ input, worker, each, approval, transform, condition, expression }) => {
    const large = condition(expression`${input.amount} > ${100}`);
    const fetched = worker({
      topic: "typed.fetch",
      input: { order: input.order },
      output: type<{ items: readonly Item[] }>(),
      retry: { max_retries: 2 },
    });
    const ok = approval({ when: expression`${large.output}`, input: { text: `Refund ${input.order}?` } });
    const checked = each(fetched.output.items, {
      topic: "typed.check",
      input: (item, index) => ({ sku: item.sku, index, order: input.order }),
      output: type<{ ok: boolean }>(),
    });
    const paid = worker({
      topic: "typed.pay",
      after: [ok],
      input: {
        first: fetched.output.items[0]?.price,
        note: `for ${input.order}`,
        checks: checked.output,
        twice: [1, 2],
      },
      output: type<{ receipt: string }>(),
    });
    const said = transform({ input: { text: `receipt ${paid.output.receipt}`, amount: input.amount } });
    return { large, fetched, ok, checked, paid, said };
  },
});

describe("the definition", () => {
  test("is the same as written by hand, with what each step depends on", () => {
    expect(JSON.parse(JSON.stringify(refund))).toEqual({
      id: "typed-refund",
      risk: "high",
      input_schema: { type: "object", required: ["order", "amount"] },
      steps: {
        large: { type: "condition", condition: "input.amount > 100" },
        fetched: { topic: "typed.fetch", input: { order: "${input.order}" }, retry: { max_retries: 2 } },
        ok: {
          type: "approval",
          condition: "steps.large.output",
          input: { text: "Refund ${input.order}?" },
          depends_on: ["large"],
        },
        checked: {
          topic: "typed.check",
          for_each: "steps.fetched.output.items",
          input: { sku: "${item.sku}", index: "${index}", order: "${input.order}" },
          depends_on: ["fetched"],
        },
        paid: {
          topic: "typed.pay",
          input: {
            first: "${steps.fetched.output.items[0].price}",
            note: "for ${input.order}",
            checks: "${steps.checked.output}",
            twice: [1, 2],
          },
          depends_on: ["ok", "fetched", "checked"],
        },
        said: {
          type: "transform",
          input: { text: "receipt ${steps.paid.output.receipt}", amount: "${input.amount}" },
          depends_on: ["paid"],
        },
      },
    });
  });

  test("a step that was forgotten is named", () => {
    const forgetful = () =>
      defineWorkflow({
        id: "forgetful",
        steps: ({ worker }) => {
          const hidden = worker({ topic: "a", output: type<{ n: number }>() });
          return { seen: worker({ topic: "b", input: { n: hidden.output.n } }) };
        },
      });
    expect(forgetful).toThrow(/forgetful: a step is referred to that is not among those returned/);
  });

  test("steps of other types name the steps they begin, and odd names are quoted", () => {
    const { definition } = defineWorkflow({
      id: "odd",
      input: type<{ "two words": string }>(),
      steps: ({ step, worker, input, expression }) => {
        const yes = worker({ topic: "yes", depends_on: [], input: { text: input["two words"] } });
        const route = step({
          type: "switch",
          condition: expression`${input["two words"]}`,
          input: { cases: [{ match: "yes", next: yes }] },
        });
        return { "the-route": route, yes };
      },
    });
    expect(definition.steps).toEqual({
      "the-route": {
        type: "switch",
        condition: 'input["two words"]',
        input: { cases: [{ match: "yes", next: "yes" }] },
      },
      yes: { topic: "yes", input: { text: '${input["two words"]}' }, depends_on: [] },
    });
  });
});

describe("on a server", () => {
  let world: SdkWorld;
  beforeAll(async () => {
    world = await openSdkWorld();
  });
  afterAll(() => world.close());

  test("it is saved, started, worked and read with its types", async () => {
    await world.admin.workflows.save(refund);
    expect((await world.admin.workflows.validate(refund)).valid).toBe(true);
    world.work({
      topics: refund.handlers({
        "typed.fetch": (job) => ({ items: [{ sku: `${job.input.order}-1`, price: 20 }] }),
        "typed.check": (job) => ({ ok: job.input.sku.startsWith(job.input.order) }),
        "typed.pay": (job) => ({
          receipt: `${job.input.first} ${job.input.note} ${job.input.checks[0]?.ok}`,
        }),
      }),
    });
    const { run_id } = await world.admin.runs.start(refund, { order: "E-5", amount: 20 });
    const run = await world.admin.runs.wait(run_id, { timeoutMs: 15_000 });
    expect(run.status).toBe("succeeded");
    const outputs = refund.outputs(run);
    const receipt: string | undefined = outputs.paid?.receipt;
    expect(receipt).toBe("20 for E-5 true");
    expect(outputs.said).toEqual({ text: "receipt 20 for E-5 true", amount: 20 });
  });
});
