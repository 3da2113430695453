// How the test runner finds and runs the suites; each stage of scripts/run-tests.mjs passes its own folder.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    setupFiles: ["test/support/secret-check.ts"],
    pool: "forks",
    maxWorkers: 2,
    // For a test that hangs, not for one that is slow: a loaded machine takes five times as long as an idle one.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    passWithNoTests: false,
    allowOnly: false,
  },
});
