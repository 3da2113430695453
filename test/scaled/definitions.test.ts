// Definitions in forms that grow: judging and saving them costs what their size says, and never blocks the event loop.
import { expect, test } from "vitest";
import { fuzzOperations } from "../fuzz/operations.ts";
import { inputsOf } from "./inputs.ts";
import { openStage } from "./stage.ts";

const { gateway, problemsWith } = openStage("definitions");

test.each(fuzzOperations.filter(({ mediaTypes }) => mediaTypes.length > 1))(
  "$name grows with the definition, and never blocks the others",
  async (operation) => {
    expect(await problemsWith(inputsOf(gateway().client, operation, "quick"))).toEqual([]);
  },
  600_000,
);
