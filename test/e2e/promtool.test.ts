// Prometheus' own tool judges what we hand to Prometheus: the rules, their tests and the example of a configuration.
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { promtool } from "../support/promtool.ts";

const folder = join(dirname(dirname(import.meta.dirname)), "deploy", "prometheus");

test("the rules can be read", () => {
  const { status, output } = promtool(["check", "rules", "alerts.yml"], { cwd: folder });
  expect(output).toMatch(/SUCCESS: \d+ rules found/);
  expect(status, output).toBe(0);
});

test("every alert fires when it should and only then", () => {
  const { status, output } = promtool(["test", "rules", "alerts.test.yml"], { cwd: folder });
  expect(output).toContain("SUCCESS");
  expect(status, output).toBe(0);
});

test("the example of a configuration can be read, with the rules that it names", () => {
  // Syntax only: the files with its keys lie on the machine that runs Prometheus.
  const { status, output } = promtool(["check", "config", "--syntax-only", "prometheus.yml"], {
    cwd: folder,
  });
  expect(output).toContain("SUCCESS");
  expect(status, output).toBe(0);
});

test("a metric that breaks the text format is found: the tool really looks", () => {
  const { status } = promtool(["check", "metrics"], { input: "interlock_starts{ 1\n" });
  expect(status).not.toBe(0);
});
