// The planted bugs in the examples and in the guide.
import type { TextPatch } from "../planted-bug.ts";

const links = "test/unit/document-links.test.ts";
const examples = "test/e2e/examples.test.ts";
const guide = "test/e2e/guide.test.ts";

export const plantedDocumentBugs: readonly TextPatch[] = [
  {
    name: "link-to-nowhere",
    what: "a page of the guide is linked under a name that it does not have",
    edits: [{ file: "docs/guide/README.md", find: "(going-to-production.md)", replace: "(production.md)" }],
    tests: [links],
  },
  {
    name: "heading-renamed",
    what: "a heading gets other words, and the links to it lead to the top of its page",
    edits: [
      {
        file: "docs/guide/explanations.md",
        find: "## Work that was given up",
        replace: "## What was given up",
      },
    ],
    tests: [links],
  },
  {
    name: "requirement-without-its-test",
    what: "a test is renamed, and the row of the requirement that it checks still has its old title",
    edits: [
      {
        file: "docs/guide/requirements.md",
        find: '"a paused worker wakes up and is refused by the tool"',
        replace: '"a worker that was paused is refused by the tool"',
      },
    ],
    tests: ["test/unit/requirements.test.ts"],
  },
  {
    name: "requirement-checked-by-nothing",
    what: "a row counts as checked although none of its tests ran",
    edits: [
      {
        file: "scripts/requirements.mjs",
        find: "if (found.length === 0) return [",
        replace: "if (found.length === 0) return []; if (found === title) return [",
      },
    ],
    tests: ["test/unit/requirements.test.ts"],
  },
  {
    name: "runbook-of-another-bound",
    what: "the runbook of an alert states another bound than its rule",
    edits: [{ file: "docs/runbooks/alerts.md", find: "is above 2 s for", replace: "is above 3 s for" }],
    tests: ["test/unit/monitoring.test.ts"],
  },
  {
    name: "command-without-script",
    what: "a page names an npm command that does not exist",
    edits: [{ file: "docs/commands.md", find: "`npm run sbom`", replace: "`npm run bill`" }],
    tests: [links],
  },
  {
    name: "readme-example-does-not-run",
    what: "the README's example calls something that the SDK does not have",
    edits: [{ file: "README.md", find: "await greeter.stop();", replace: "await greeter.end();" }],
    tests: [guide],
  },
  {
    name: "example-leaves-processes",
    what: "an example that is interrupted leaves its servers running on the user's machine",
    edits: [
      {
        file: "examples/support/processes.ts",
        find: `  for (const child of children) child.kill("SIGKILL");\n`,
        replace: "",
      },
    ],
    tests: [examples],
  },
  {
    name: "example-without-guard",
    what: "the payment service of the example lets a worker pay that another one has overtaken",
    edits: [
      {
        file: "examples/06-fenced-side-effect/main.ts",
        find: `service.addHook("onRequest", fenceGuard().fastify);\n`,
        replace: "fenceGuard();\n",
      },
    ],
    tests: [examples],
  },
];
