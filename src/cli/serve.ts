// npm run serve: the plain server, which is the command `interlock serve`.
import { main } from "./main.ts";
import { endProcess } from "./run-program.ts";
import { processTerminal } from "./terminal.ts";

process.stdout.on("error", () => {});
endProcess(await main(["serve", ...process.argv.slice(2)], processTerminal()));
