// How the test runner finds and runs the suites; scripts/run-tests.mjs passes the folders of its stages.
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Files of a quarter of a minute and more, longest first. A fresh clone has no record of earlier runs: the runner goes by the
 * size of the files then, and a short file that takes minutes would be the last one, beside idle cores.
 */
const longest = [
  ...["conformance/differential", "drills/cluster", "chaos/chaos", "conformance/differential-trees"],
  ...["drills/embedded", "e2e/idle", "e2e/bench-admission", "conformance/store", "e2e/canary", "faults/nats"],
  ...["scaled/definitions", "e2e/cluster", "e2e/examples", "conformance/step-types-incidents"],
  ...["e2e/bench-flood", "scaled/stored", "e2e/bus-results", "simulation/mutants", "e2e/fresh-clone"],
  ...["e2e/guide", "simulation/command", "e2e/gateway-routes", "e2e/package", "e2e/bench-locks"],
  ...["faults/redis-cluster", "conformance/step-types", "simulation/seeds", "e2e/promtool"],
  ...["conformance/step-types-together", "e2e/start", "simulation/determinism", "faults/nats-bus"],
  ...["e2e/packaging", "simulation/exhaustive", "faults/server-standing", "scaled/operations"],
  ...["simulation/sqlite", "e2e/rolling-restart", "e2e/backup", "e2e/bench-cluster", "e2e/embedded-kill"],
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
