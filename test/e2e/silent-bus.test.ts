// A NATS server that accepts the connection and says nothing: programs say so and end, so that a supervisor can start them again.
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, test } from "vitest";
import { startProgram } from "../support/program.ts";

let silent: Server;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "interlock-silent-"));
  silent = createServer(() => {});
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  silent.close();
  rmSync(folder, { recursive: true, force: true });
});

test.concurrent.for([
  ["serve.ts", []],
  ["interlock.ts", ["doctor"]],
] as const)("%s %j ends with an error", async ([name, args], { expect }) => {
  const { port } = silent.address() as AddressInfo;
  const settings = {
    DATA_DIRECTORY: folder,
    BUS: "nats",
    NATS_URLS: `nats://127.0.0.1:${port}`,
    GATEWAY_PORT: "0",
  };
  const program = startProgram(name, { args, settings, cwd: folder });
  try {
    expect(await program.ended, program.output()).toBe(1);
    expect(program.output()).toContain(`127.0.0.1:${port}`);
  } finally {
    await program.kill();
  }
});
