// How the test runner finds and runs the suites; each stage of scripts/run-tests.mjs passes its own folder.
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Files of half a minute and more, longest first. A fresh clone has no record of earlier runs: the runner goes by the
 * size of the files then, and a short file that takes minutes would be the last one, beside an idle core.
 */
const longest = [
  ...["e2e/fresh-clone", "e2e/cluster", "e2e/examples", "e2e/guide", "e2e/start", "e2e/gateway-routes"],
  ...["e2e/promtool", "e2e/bench-cluster", "e2e/bench-admission", "e2e/rolling-restart", "e2e/bench-locks"],
  ...["e2e/backup", "e2e/package", "e2e/bench-flood", "e2e/packaging", "e2e/embedded-kill"],
  ...["conformance/differential", "conformance/step-types-flows", "conformance/differential-trees"],
  ...["simulation/exhaustive", "simulation/command", "simulation/mutants", "simulation/determinism"],
].map((name) => `/test/${name}.test.ts`);

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const index = longest.findIndex((name) => moduleId.endsWith(name));
      return index === -1 ? longest.length : index;
    };
    return (await super.sort(files)).sort((left, right) => rank(left) - rank(right));
  }
}

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    setupFiles: ["test/support/secret-check.ts", "test/support/metric-check.ts"],
    pool: "forks",
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    // For a test that hangs, not for one that is slow: a loaded machine takes five times as long as an idle one.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000 } },
    passWithNoTests: false,
    allowOnly: false,
  },
});
