// Every example runs and says what its file promises.
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

const root = dirname(dirname(import.meta.dirname));

const expected: Record<string, string> = {
  "01-start-a-run.ts": "first 200 admitted\nagain 200 replayed\n",
  "02-work-under-a-lease.ts": "finished ended\n",
};

test("every example has an expected output", () => {
  expect(readdirSync(join(root, "examples")).sort()).toEqual(Object.keys(expected));
});

test.each(Object.entries(expected))("%s runs", (file, output) => {
  const said = execFileSync("node", ["--import", "tsx", join("examples", file)], {
    cwd: root,
    encoding: "utf8",
  });
  expect(said).toBe(output);
});
