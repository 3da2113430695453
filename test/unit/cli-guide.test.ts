// The guide to the command line is complete: every command, every exit code, and a configuration file that is valid.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { createProgram } from "../../src/cli/main.ts";
import { exitCodes } from "../../src/cli/report-failure.ts";
import { processTerminal } from "../../src/cli/terminal.ts";
import { loadConfig, parseConfigFile } from "../../src/load-config.ts";

const guide = readFileSync(join(dirname(dirname(import.meta.dirname)), "docs/guide/cli.md"), "utf8");
const program = createProgram({ terminal: processTerminal(), ending: "ok", format: "text" });

function leavesOf(command: Command, before: string): string[] {
  return command.commands
    .filter((child) => child.name() !== "help")
    .flatMap((child) => {
      const name = `${before} ${child.name()}`;
      return child.commands.length === 0 ? [name] : leavesOf(child, name);
    });
}

/** What follows the program's name on every line that calls it. */
const calls = [...guide.matchAll(/(?:^\$ |&& |: |`)(interlock [^#`\n|&]+)/gm)].map(([, call = ""]) =>
  call.trim(),
);

describe("docs/guide/cli.md", () => {
  test.each(leavesOf(program, "interlock"))("shows %s", (name) => {
    expect(calls.filter((call) => call === name || call.startsWith(`${name} `))).not.toEqual([]);
  });

  test.each(calls)("names only commands and options that there are: %s", (call) => {
    let command = program;
    const [, ...words] = call.split(" ");
    for (const word of words) {
      const child = command.commands.find((each) => each.name() === word || each.aliases().includes(word));
      if (child === undefined) break;
      command = child;
    }
    const [byDefault] = command.commands;
    const known = [program, command, ...(byDefault === undefined ? [] : [byDefault])].flatMap(({ options }) =>
      options.flatMap(({ long, short }) => [long, short]),
    );
    const used = words.filter((word) => /^--?[a-z]/.test(word)).map((word) => word.split("=")[0]);
    expect(used.filter((option) => !known.includes(option))).toEqual([]);
  });

  test("tells every exit code", () => {
    const told = [...guide.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code));
    expect(told).toEqual(Object.values(exitCodes).map(({ code }) => code));
  });

  test("its configuration file is one", () => {
    const [, text = ""] = /```yaml\n([\s\S]*?)```/.exec(guide) ?? [];
    expect(loadConfig({ file: parseConfigFile(text, "guide") }).config).toMatchObject({
      "gateway.port": 7400,
      "process.roles": "gateway,engine",
    });
  });
});
