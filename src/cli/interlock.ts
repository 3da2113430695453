#!/usr/bin/env node
// The program `interlock`, as npm installs it.
import { main } from "./main.ts";
import { endProcess } from "./run-program.ts";
import { processTerminal } from "./terminal.ts";

// A reader that has seen enough, such as `head`, is no failure: the command ends, and only a server goes on without one.
process.stdout.on("error", () => {
  if (!process.argv.includes("serve")) process.exit(0);
});
endProcess(await main(process.argv.slice(2), processTerminal()));
