// What stored definitions make of inputs that grow: checks, starts, commits, dry runs and what shows large runs never block the event loop.
import { expect, test } from "vitest";
import { openStage } from "./stage.ts";
import { storedInputs } from "./stored.ts";

const { gateway, problemsWith } = openStage("stored");

test("what a stored definition makes of an input, a loop, a list and a result grows with them", async () => {
  expect(await problemsWith(storedInputs(gateway()))).toEqual([]);
}, 600_000);
