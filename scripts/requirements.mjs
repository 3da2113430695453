// The page of requirements as a list of checks: which tests each row names, and whether they ran and passed.

/** As the page has it: | id | claim | where it lives | checked by |. */
const ROW = /^\| (R\d{3}-\d{2}) \| (.+) \| (.+) \| (.+) \|$/gm;
/** A test by its file and a part of its title, or a drill. */
const CHECK = /\[[^\]]+\]\(\.\.\/\.\.\/(test\/[\w/-]+\.test\.ts)\) "([^"]+)"|`drill ([a-z0-9-]+)`/g;

/** The tests that run every drill: on an embedded instance and on servers of its own. */
const DRILL_FILES = ["test/drills/embedded.test.ts", "test/drills/cluster.test.ts"];

/**
 * The rows in their order. What else stands in the cell of checks is `unread`: such a row is not checked by what it seems to name.
 */
export function readRequirements(page) {
  return [...page.matchAll(ROW)].map(([, id, claim, where, cell]) => ({
    id,
    claim,
    where,
    checks: [...cell.matchAll(CHECK)].flatMap(([, file, title, drill]) =>
      drill === undefined
        ? [{ file, title }]
        : DRILL_FILES.map((drillFile) => ({
            file: drillFile,
            title: `${drill} meets its expectation`,
            drill,
          })),
    ),
    unread: cell.replaceAll(CHECK, "").replaceAll(", ", ""),
  }));
}

/** The stage of scripts/run-tests.mjs that runs a test file is named after its folder. */
export function stageOf(file) {
  return file.split("/")[1];
}

/**
 * Which rows are checked by these tests, and what is wrong with the others. A row is judged when every stage that it names has
 * run. `tests` are all that ran: file, full title and status; a test that ran several times must have passed each time.
 */
export function judgeRequirements(rows, { stages, tests }) {
  const titles = new Map();
  for (const test of tests) titles.set(test.file, [...(titles.get(test.file) ?? []), test]);
  const judged = rows.filter(({ checks }) => checks.every(({ file }) => stages.includes(stageOf(file))));
  const problems = judged.flatMap(({ id, checks, unread }) => [
    ...(checks.length === 0 ? [`${id} names no check`] : []),
    ...(unread === "" ? [] : [`${id}: ${unread} is neither a test with its title nor a drill`]),
    ...checks.flatMap(({ file, title }) => {
      const found = (titles.get(file) ?? []).filter(({ fullName }) => fullName.includes(title));
      if (found.length === 0) return [`${id}: no test "${title}" ran in ${file}`];
      return found.some(({ status }) => status !== "passed") ? [`${id}: "${title}" in ${file} failed`] : [];
    }),
  ]);
  return { judged: judged.length, problems };
}
