// The search for an order, held against trying every order, for each model; and its budget.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type AdmissionAnswer,
  type AdmissionOperation,
  createAdmissionModel,
} from "../../proof/history/admission-model.ts";
import { type DecisionAnswer, decisionModel } from "../../proof/history/check-approvals.ts";
import { type LockAnswer, type LockOperation, lockModel } from "../../proof/history/check-locks.ts";
import { linearize, type Model, type TimedOperation } from "../../proof/history/linearize.ts";
import {
  type RegisterAnswer,
  type RegisterOperation,
  registerModel,
} from "../../proof/history/register-model.ts";

/** Every order that real time allows, with every set of operations without an answer: no memory, no heuristics. */
function fitsSomeOrder<State, Operation, Answer>(
  model: Model<State, Operation, Answer>,
  left: ReadonlyArray<TimedOperation<Operation, Answer>>,
  state: State = model.initial,
): boolean {
  if (left.every(({ completion }) => completion === undefined)) return true;
  return left.some((next) => {
    const isTooEarly = left.some(({ completion }) => completion && completion.atUs < next.invokedAtUs);
    if (isTooEarly) return false;
    const rest = left.filter((each) => each !== next);
    return model
      .step(state, next.operation, next.completion?.answer)
      .some((after) => fitsSomeOrder(model, rest, after));
  });
}

/** Overlapping in every way, with or without an answer. */
function timed<Operation, Answer>(
  told: fc.Arbitrary<{ readonly operation: Operation; readonly answer: Answer }>,
  length: number,
): fc.Arbitrary<Array<TimedOperation<Operation, Answer>>> {
  const one = fc.record({
    told,
    invokedAtUs: fc.nat(16),
    tookUs: fc.nat(8),
    isUnknown: fc.integer({ min: 0, max: 9 }).map((chance) => chance < 3),
  });
  return fc.array(one, { minLength: 2, maxLength: length }).map((list) =>
    list.map(({ told: { operation, answer }, invokedAtUs, tookUs, isUnknown }) => {
      const asked = { operation, invokedAtUs };
      return isUnknown ? asked : { ...asked, completion: { atUs: invokedAtUs + tookUs, answer } };
    }),
  );
}

/** Says how many of each verdict there were: a comparison in which all are alike proves little. */
function compare<State, Operation, Answer>(
  model: Model<State, Operation, Answer>,
  histories: fc.Arbitrary<Array<TimedOperation<Operation, Answer>>>,
  numRuns: number,
): { readonly fitting: number; readonly broken: number } {
  const counts = { fitting: 0, broken: 0 };
  fc.assert(
    fc.property(histories, (operations) => {
      const fits = fitsSomeOrder(model, operations);
      counts[fits ? "fitting" : "broken"] += 1;
      expect(linearize(model, operations).kind).toBe(fits ? "linearizable" : "violation");
    }),
    { numRuns, seed: 6 },
  );
  return counts;
}

describe("linearize agrees with trying every order", () => {
  test("of a register", () => {
    const value = fc.nat(2);
    const told = fc.oneof<
      fc.Arbitrary<{ readonly operation: RegisterOperation; readonly answer: RegisterAnswer }>[]
    >(
      fc.record({
        operation: fc.constant({ kind: "read" as const }),
        answer: value.map((read): RegisterAnswer => ({ kind: "value", value: read })),
      }),
      value.map((written) => ({
        operation: { kind: "write" as const, value: written },
        answer: { kind: "written" } as RegisterAnswer,
      })),
      fc.record({
        operation: fc.record({ kind: fc.constant("compare_and_set" as const), expected: value, value }),
        answer: fc.constantFrom<RegisterAnswer>({ kind: "written" }, { kind: "different" }),
      }),
    );
    const { fitting, broken } = compare(registerModel, timed(told, 7), 3_000);
    expect([fitting > 250, broken > 250]).toEqual([true, true]);
  });

  test("of an approval", () => {
    const decision = fc.constantFrom("approved" as const, "rejected" as const);
    const told = fc.record({
      operation: fc.record({ decision }),
      answer: fc.oneof<fc.Arbitrary<DecisionAnswer>[]>(
        fc.record({ kind: fc.constant("decided" as const), decision }),
        fc.record({ kind: fc.constant("decided_before" as const), decision }),
        fc.constant({ kind: "expired" as const }),
        fc.constant({ kind: "run_ended" as const }),
      ),
    });
    const { fitting, broken } = compare(decisionModel, timed(told, 6), 3_000);
    expect([fitting > 250, broken > 250]).toEqual([true, true]);
  });

  test("of a lock", () => {
    const answeredUs = fc.nat(24);
    const fence = fc.integer({ min: 1, max: 4 });
    const acquire = fc.record({
      kind: fc.constant("acquire" as const),
      client: fc.constantFrom("ann", "bob"),
      mayExpireUs: fc.nat(30),
      answeredUs,
    });
    const release = fc.record({ kind: fc.constant("release" as const), fence, answeredUs });
    const told = fc.oneof<fc.Arbitrary<{ readonly operation: LockOperation; readonly answer: LockAnswer }>[]>(
      fc.record({ operation: acquire, answer: fc.record({ kind: fc.constant("granted" as const), fence }) }),
      fc.record({
        operation: release,
        answer: fc.constantFrom<LockAnswer>({ kind: "released" }, { kind: "not_owned" }),
      }),
    );
    const { fitting, broken } = compare(lockModel, timed(told, 6), 3_000);
    expect([fitting > 150, broken > 150]).toEqual([true, true]);
  });

  test("of admission", () => {
    const run = fc.nat(2);
    const print = fc.integer({ min: 1, max: 2 });
    const told = fc.oneof<
      fc.Arbitrary<{ readonly operation: AdmissionOperation; readonly answer: AdmissionAnswer }>[]
    >(
      fc.record({
        operation: fc.record({ kind: fc.constant("start" as const), run, print }),
        answer: fc.constantFrom<AdmissionAnswer>(
          "created",
          "created",
          "replayed",
          "limit_reached",
          "key_reused",
        ),
      }),
      fc.record({
        operation: fc.record({
          kind: fc.constant("start" as const),
          run: fc.constant(undefined),
          print: fc.constant(1),
        }),
        answer: fc.constant<AdmissionAnswer>("limit_reached"),
      }),
      fc.record({
        operation: fc.record({ kind: fc.constant("end" as const), run }),
        answer: fc.constant<AdmissionAnswer>("done"),
      }),
      fc.record({
        operation: fc.record({ kind: fc.constant("look" as const), run }),
        answer: fc.constantFrom<AdmissionAnswer>("lives", "ended", "exists", "absent"),
      }),
      fc.record({
        operation: fc.record({ kind: fc.constant("set_limit" as const), limit: fc.nat(2) }),
        answer: fc.constant<AdmissionAnswer>("done"),
      }),
    );
    const model = createAdmissionModel({ limit: 1, runs: 3, unclaimed: [2] });
    const { fitting, broken } = compare(model, timed(told, 6), 8_000);
    expect([fitting > 400, broken > 400]).toEqual([true, true]);
  });
});

describe("the search", () => {
  const write = (value: number, invokedAtUs: number, atUs: number) => ({
    operation: { kind: "write" as const, value },
    invokedAtUs,
    completion: { atUs, answer: { kind: "written" } as RegisterAnswer },
  });
  const read = (value: number | undefined, invokedAtUs: number, atUs: number) => ({
    operation: { kind: "read" as const },
    invokedAtUs,
    completion: { atUs, answer: { kind: "value", value } as RegisterAnswer },
  });

  test("takes operations that touch in time as overlapping", () => {
    expect(linearize(registerModel, [write(1, 0, 10), read(undefined, 10, 20)]).kind).toBe("linearizable");
    expect(linearize(registerModel, [write(1, 0, 9), read(undefined, 10, 20)]).kind).toBe("violation");
  });

  test("says where it got stuck", () => {
    const operations = [write(1, 0, 1), write(2, 2, 3), read(1, 4, 5), write(3, 6, 7)];
    expect(linearize(registerModel, operations)).toMatchObject({ kind: "violation", stuckOn: [2] });
  });

  test("says that it does not know when its budget ends, good or bad", () => {
    const many = Array.from({ length: 12 }, (_, value) => write(value, value, 100));
    expect(linearize(registerModel, [...many, read(50, 200, 201)], 100)).toEqual({
      kind: "undecided",
      steps: 100,
    });
    expect(linearize(registerModel, [...many, read(5, 200, 201)], 3).kind).toBe("undecided");
    expect(linearize(registerModel, [...many, read(5, 200, 201)]).kind).toBe("linearizable");
  });

  test("is not deep: thirty thousand operations need no stack", () => {
    const long = Array.from({ length: 30_000 }, (_, index) => write(index, index * 10, index * 10 + 25));
    expect(linearize(registerModel, long).kind).toBe("linearizable");
  });
});
