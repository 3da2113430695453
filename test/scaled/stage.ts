// What the files of the stage share: a server of their own, and the table of what was measured on it.
import { afterAll, beforeAll } from "vitest";
import { type MeasuredGateway, openMeasuredGateway } from "./gateway.ts";
import type { ScaledInput } from "./inputs.ts";
import { judge, type Row } from "./judge.ts";
import { problemsOf, tableOf, writeTable } from "./report.ts";

export type Stage = {
  gateway(): MeasuredGateway;
  /** In words, for people; none when every input costs what its size says. */
  problemsWith(inputs: readonly ScaledInput[]): Promise<readonly string[]>;
};

export function openStage(name: string): Stage {
  let opened: MeasuredGateway | undefined;
  const rows: Row[] = [];
  const seen = new Set<string>();
  const gateway = () => {
    if (opened === undefined) throw new Error("the server is started before the tests");
    return opened;
  };
  beforeAll(async () => {
    opened = await openMeasuredGateway();
  });
  afterAll(async () => {
    await opened?.close();
    const table = tableOf(rows);
    console.log(`${table}\n\nThe table is in ${writeTable(name, table)}`);
  });
  return {
    gateway,
    async problemsWith(inputs) {
      const own: Row[] = [];
      for (const input of inputs) {
        own.push(await judge(gateway(), input, seen.has(input.kind) ? "largest" : "all"));
        seen.add(input.kind);
      }
      rows.push(...own);
      return problemsOf(own);
    },
  };
}
