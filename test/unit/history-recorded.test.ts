// Our linearizability checker against 102 recorded histories of a register whose verdicts are known.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { linearize, type TimedOperation } from "../../proof/history/linearize.ts";
import {
  type RegisterAnswer,
  type RegisterOperation,
  registerModel,
} from "../../proof/history/register-model.ts";

const folder = join(import.meta.dirname, "../fixtures/histories");
const read = (name: string) => readFileSync(join(folder, name), "utf8");

const expected = read("expected.txt")
  .trim()
  .split("\n")
  .map((line) => {
    const [number = "", verdict] = line.split(" ");
    return { file: `etcd_${number.padStart(3, "0")}.log`, isLinearizable: verdict === "true" };
  });

type Recorded = TimedOperation<RegisterOperation, RegisterAnswer>;

/** `<process> :invoke|:ok|:fail|:info :read|:write|:cas <value>`, one line after the other in the order of time. */
function parseLog(text: string): Recorded[] {
  const operations: Recorded[] = [];
  const open = new Map<string, number>();
  for (const [atUs, line] of text.split("\n").entries()) {
    const [, process = "", type, name, value = ""] =
      /- (\d+)\s+:(invoke|ok|fail|info)\s+:(read|write|cas)\s+(.*)$/.exec(line) ?? [];
    if (type === undefined) continue;
    if (type === "invoke") {
      open.set(process, operations.length);
      operations.push({ operation: operationOf(name, value), invokedAtUs: atUs });
      continue;
    }
    const index = open.get(process) as number;
    open.delete(process);
    if (value.trim() === ":timed-out") continue;
    const answer = answerOf(type, name, value);
    operations[index] = { ...(operations[index] as Recorded), completion: { atUs, answer } };
  }
  return operations;
}

function operationOf(name: string | undefined, value: string): RegisterOperation {
  if (name === "read") return { kind: "read" };
  const [first = 0, second = 0] = [...value.matchAll(/-?\d+/g)].map(Number);
  if (name === "write") return { kind: "write", value: first };
  return { kind: "compare_and_set", expected: first, value: second };
}

function answerOf(type: string, name: string | undefined, value: string): RegisterAnswer {
  if (name === "read") return { kind: "value", value: value.trim() === "nil" ? undefined : Number(value) };
  return { kind: type === "ok" ? "written" : "different" };
}

describe("102 recorded histories of a register", () => {
  test("there are 102 of them, of both kinds", () => {
    expect(expected).toHaveLength(102);
    expect(new Set(expected.map(({ isLinearizable }) => isLinearizable))).toEqual(new Set([true, false]));
  });

  test.each(expected)("$file: linearizable is $isLinearizable", ({ file, isLinearizable }) => {
    const operations = parseLog(read(file));
    expect(operations.length).toBeGreaterThan(20);
    expect(linearize(registerModel, operations).kind).toBe(isLinearizable ? "linearizable" : "violation");
  });
});
