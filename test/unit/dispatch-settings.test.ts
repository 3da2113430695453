// The settings of the dispatch check: where it may be, and which processes hold jobs for it.
import { describe, expect, test } from "vitest";
import { engineTerms, withDispatchCheck } from "../../src/control/engine/engine.ts";
import { loadConfig } from "../../src/load-config.ts";

describe("the address of the check", () => {
  test.each([
    "https://policy.example/check?team=7",
    "http://localhost:8080/check",
    "http://127.0.0.1/check",
    "http://127.8.9.1:1/",
    "http://[::1]:8080/check",
  ])("may be %s", (url) => {
    const { config } = loadConfig({ overrides: { "dispatch.checkUrl": url } });
    expect(config["dispatch.checkUrl"]).toBe(url);
  });

  test.each([
    "http://policy.example/check",
    "http://127.0.0.1.example/check",
    "http://localhost.example/",
    "http://10.0.0.7/",
    "https://user:password@policy.example/",
    "ftp://policy.example/",
    "https://",
    "policy.example",
  ])("may not be %s", (url) => {
    expect(() => loadConfig({ overrides: { "dispatch.checkUrl": url } })).toThrow(/dispatch.checkUrl/);
  });

  test("may be http elsewhere for those who say so", () => {
    const overrides = { "dispatch.checkUrl": "http://10.0.0.7/", "dispatch.allowInsecure": "yes" } as const;
    expect(loadConfig({ overrides }).config["dispatch.checkUrl"]).toBe("http://10.0.0.7/");
  });
});

describe("jobs of high risk are held", () => {
  const checkUrl = "https://policy.example/";
  test.each([
    ["auto", "", undefined],
    ["auto", checkUrl, true],
    ["high", "", true],
    ["off", checkUrl, undefined],
  ] as const)("%s with the address '%s': %s", (hold, url, held) => {
    const { config } = loadConfig({ overrides: { "dispatch.hold": hold, "dispatch.checkUrl": url } });
    expect(engineTerms(config).commit.holdsHighRisk).toBe(held);
  });

  test("by a process whose check is a function, unless that is turned off", () => {
    expect(engineTerms(withDispatchCheck(loadConfig().config)).commit.holdsHighRisk).toBe(true);
    const { config } = loadConfig({ overrides: { "dispatch.hold": "off" } });
    expect(engineTerms(withDispatchCheck(config)).commit.holdsHighRisk).toBeUndefined();
  });
});
