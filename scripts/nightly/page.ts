// The page of a night: what each part did, and each failure with the command that shows it again.
import type { Done, Task } from "./night.ts";

export type Night = {
  readonly hours: number;
  readonly seed: number;
  readonly commit: string;
  readonly tasks: readonly Task[];
  readonly done: readonly Done[];
  /** Files that a part has left, from the page on. */
  leftBy(done: Done): readonly string[];
};

export function isGood({ done, tasks }: Pick<Night, "done" | "tasks">): boolean {
  return done.length === tasks.length && done.every(({ run }) => run.end === "passed");
}

export function nightPage(night: Night): string {
  const { hours, seed, commit, tasks, done } = night;
  const countOf = (...ends: readonly string[]) => done.filter(({ run }) => ends.includes(run.end)).length;
  const facts = [
    { count: countOf("failed", "took too long"), what: "found something or did not come to an end" },
    { count: countOf("stopped"), what: "stopped from outside" },
    { count: tasks.length - done.length, what: "not begun" },
  ].filter(({ count }) => count > 0);
  const verdict =
    facts.length === 0
      ? "Nothing was found."
      : `Of ${tasks.length} parts: ${facts.map(({ count, what }) => `${count} ${what}`).join(", ")}.`;
  return `${[
    `# A night of ${hours} h on ${commit}, seed ${seed}`,
    "",
    verdict,
    "",
    "| part | minutes | end | command |",
    "|---|---|---|---|",
    ...tasks.map((task) =>
      row(
        task,
        done.find(({ task: other }) => other === task),
      ),
    ),
    ...done.flatMap((each) => sectionOf(each, night.leftBy(each))),
  ].join("\n")}\n`;
}

function row(task: Task, done: Done | undefined): string {
  const end =
    done === undefined ? "has not run" : done.run.end === "passed" ? "passed" : `**${done.run.end}**`;
  return `| ${task.part.name} | ${done?.run.minutes.toFixed(1) ?? ""} | ${end} | \`npm run ${task.words.join(" ")}\` |`;
}

/** More is in the log. */
const linesMax = 40;
const charactersMax = 300;

function sectionOf({ task, run, did, again }: Done, left: readonly string[]): readonly string[] {
  const words = did.length > 0 ? did : run.output.trim().split("\n").slice(-10);
  return [
    "",
    `## ${task.part.name}: ${run.end}`,
    "",
    "```",
    ...words.slice(0, linesMax).map((line) => line.slice(0, charactersMax)),
    "```",
    ...(again.length === 0 ? [] : ["", "To see it again:", "", "```", ...again.slice(0, linesMax), "```"]),
    "",
    ...left.map((path) => (path.endsWith(".svg") ? `![${path}](${path})` : `- [${path}](${path})`)),
  ];
}
