// Renders the reference of the command line from the program itself.
import type { Command, Option } from "commander";
import { createProgram } from "../src/cli/main.ts";
import { exitCodes } from "../src/cli/report-failure.ts";
import { processTerminal } from "../src/cli/terminal.ts";

export function commandPage(generated: string): string {
  const program = createProgram({ terminal: processTerminal(), ending: "ok", format: "text" });
  const codes = Object.values(exitCodes).map(({ code, meaning }) => `| ${code} | ${meaning} |`);
  return [
    generated,
    "",
    "# Commands",
    "",
    "Every command of `interlock`; the [guide](../guide/cli.md) shows them at work. These options go with all of them:",
    "",
    ...optionTable(program),
    "",
    "| exit code | meaning |",
    "| --- | --- |",
    ...codes,
    "",
    ...program.commands.filter(isShown).flatMap((command) => section(command, "interlock")),
  ].join("\n");
}

const isShown = (command: Command) => command.name() !== "help";

function section(command: Command, before: string): string[] {
  const name = `${before} ${command.name()}`;
  const children = command.commands.filter(isShown);
  if (children.length > 0) {
    // In every group the first is the one that is meant when none is named.
    const note = ` Without another word it is \`${children[0]?.name() ?? ""}\`.`;
    return [
      `## ${name}`,
      "",
      `${sentence(command.description())}${note}`,
      "",
      ...children.flatMap((child) => section(child, name)),
    ];
  }
  const words = command.registeredArguments.map((argument) => {
    const shown = `${argument.name()}${argument.variadic ? "..." : ""}`;
    return argument.required ? `<${shown}>` : `[${shown}]`;
  });
  const also = command.aliases().map((alias) => ` (or \`${alias}\`)`);
  return [
    `${before === "interlock" ? "##" : "###"} ${name}`,
    "",
    `\`${[name, ...words].join(" ")}\`${also.join("")}: ${sentence(command.description())}`,
    "",
    ...(command.options.length === 0 ? [] : [...optionTable(command), ""]),
  ];
}

const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

function optionTable(command: Command): string[] {
  const cell = (text: string) => text.replaceAll("|", "\\|");
  return [
    "| option | what it does |",
    "| --- | --- |",
    ...command.options
      .filter(({ hidden }) => !hidden)
      .map((option) => `| \`${cell(option.flags)}\` | ${cell(describe(option))} |`),
  ];
}

function describe({ description, argChoices, defaultValue, mandatory }: Option): string {
  const choices = argChoices === undefined ? "" : ` (${argChoices.join(", ")})`;
  const byDefault =
    defaultValue === undefined || typeof defaultValue === "boolean"
      ? ""
      : `; default ${JSON.stringify(defaultValue)}`;
  return `${description}${choices}${byDefault}${mandatory ? "; required" : ""}`;
}
