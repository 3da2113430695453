// Renders docs/invariants.md from the table of invariants and the planted bugs that name them.

import { swaps } from "../proof/planted/planted-bugs.ts";
import { invariantNames, invariants } from "../proof/simulation/invariants/invariants.ts";
import type { page as renderPage } from "./reference-pages.ts";

export function invariantsPage(page: typeof renderPage): string {
  const rows = invariantNames.map((name) => {
    const { statement, checks, marks, simulationBugs = [], productBugs = [] } = invariants[name];
    const inSimulation = Object.keys(swaps).filter(
      (bug) => swaps[bug]?.caughtBy.includes(name) === true || simulationBugs.includes(bug),
    );
    return [
      name,
      statement,
      checks.map(asCheck).join("<br>"),
      asCode(marks),
      [asCode(inSimulation), asCode(productBugs)].filter((list) => list !== "").join("; "),
    ];
  });
  return page(
    "Invariants",
    "What must hold of Interlock whatever fails, who looks at it, and how we know that they would see it. `npm run sim` simulates the whole " +
      "system with faults and stops at the first broken one; a batch of 200 seeds or more counts only if every situation of the fourth " +
      "column has occurred in it. `npm run sim:mutants` plants each bug of the last column into the simulation (after a semicolon: " +
      "`npm run plant-bugs` into a copy of the source) and shows that it is found. A test checks that everything named here exists.",
    ["invariant", "what must hold", "checked by", "must have occurred", "planted bugs"],
    rows,
  );
}

/** `file: name`, where the file is named by its last part. */
function asCheck(check: string): string {
  const [file = "", ...name] = check.split(": ");
  return name.length === 0 ? `\`${file}\`` : `\`${file}\`: ${name.join(": ")}`;
}

export function asCode(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(", ");
}
