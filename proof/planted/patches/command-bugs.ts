// Planted bugs in the command line: what it sends where, how it ends, and what it lets reach a terminal.
import type { TextPatch } from "../planted-bug.ts";

export const plantedCommandBugs: readonly TextPatch[] = [
  {
    name: "local-key-sent-anywhere",
    what: "the command sends the admin's key of the data folder to whatever server is named",
    edits: [
      {
        file: "src/cli/context.ts",
        find: "  const isLocal = !local.isGuess && sameServer(url, local.url);",
        replace: "  const isLocal = true;",
      },
    ],
    tests: ["test/unit/cli-program.test.ts"],
  },
  {
    name: "failed-run-ends-well",
    what: "a run that was waited for and failed ends the command with exit code 0",
    edits: [
      {
        file: "src/cli/commands/runs.ts",
        find: `  if (watched.run.status !== "succeeded") {`,
        replace: `  if (watched.run.status === "pending") {`,
      },
    ],
    tests: ["test/e2e/cli.test.ts"],
  },
  {
    name: "escapes-reach-the-terminal",
    what: "escape sequences in names and errors from the server are obeyed by the terminal",
    edits: [
      {
        file: "src/cli/text.ts",
        find: `character === "\\n" || character === "\\t" ? " " : "\\u{fffd}",`,
        replace: `character === "\\n" || character === "\\t" ? " " : character,`,
      },
    ],
    tests: ["test/unit/cli-text.test.ts"],
  },
];
