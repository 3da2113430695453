// How the test runner finds and runs the suites; each stage of scripts/run-tests.mjs passes its own folder.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    setupFiles: ["test/support/secret-check.ts"],
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 20_000,
    hookTimeout: 30_000,
    passWithNoTests: false,
    allowOnly: false,
  },
});
