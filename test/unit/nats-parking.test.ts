// Messages that wait for their delay in the NATS adapter, to the millisecond: what the server is told, and when.
import type { Msg } from "@nats-io/transport-node";
import { expect, test } from "vitest";
import { createParking } from "../../src/adapters/nats/parking.ts";
import { createKernel } from "../../src/testing/kernel.ts";

function setUp() {
  const kernel = createKernel(1);
  const said: string[] = [];
  const message = (name: string) =>
    ({ respond: (word: string) => said.push(`${kernel.nowMs()} ${name} ${word}`) > 0 }) as unknown as Msg;
  return { kernel, said, message, parking: createParking(kernel.process("p").clock) };
}

const nanoseconds = (ms: number) => `-NAK {"delay":${ms}000000}`;

test("a message goes back at its time, and by the server's own clock two seconds later if this process is gone", async () => {
  const { kernel, said, message, parking } = setUp();
  parking.later(message("a"), 500);
  expect(said).toEqual([`0 a ${nanoseconds(2_500)}`]);
  await kernel.run({ untilMs: 499 });
  expect(said).toHaveLength(1);
  await kernel.run({ untilMs: 500 });
  expect(said.slice(1)).toEqual(["500 a -NAK"]);
  await kernel.run({ untilMs: 10_000 });
  expect(said).toHaveLength(2);
});

test("at the end all go back at once with what is left of their delay, and so do later ones", async () => {
  const { kernel, said, message, parking } = setUp();
  parking.later(message("a"), 500);
  await kernel.run({ untilMs: 200 });
  parking.end();
  parking.later(message("b"), 400);
  await kernel.run({ untilMs: 10_000 });
  expect(said.slice(1)).toEqual([`200 a ${nanoseconds(300)}`, `200 b ${nanoseconds(400)}`]);
});

test("beyond ten thousand the server keeps the delay", () => {
  const { said, message, parking } = setUp();
  for (let index = 0; index < 10_000; index += 1) parking.later(message("a"), 500);
  parking.later(message("b"), 500);
  expect(said.at(-1)).toBe(`0 b ${nanoseconds(500)}`);
});
