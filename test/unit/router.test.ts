// The router: the operation of a method and a path, however the path is spelt, and what is said where there is none.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Route } from "../../src/api/route.ts";
import { type Operation, operations, routes } from "../../src/api/routes.ts";
import { createRouter } from "../../src/gateway/router.ts";

fc.configureGlobal({ seed: 1 });

const router = createRouter(operations);

/** The path of an operation with these values of its parameters, in order. */
function pathOf(operation: Operation, values: readonly string[]): string {
  let index = 0;
  return routes[operation].path.replaceAll(/\{[a-z_]+\}/g, () => {
    index += 1;
    return encodeURIComponent(values[index - 1] ?? "x");
  });
}

describe("the router", () => {
  test.each(operations)("finds %s, and its values as they were before they were escaped", (operation) => {
    const route: Route = routes[operation];
    const names = [...route.path.matchAll(/\{([a-z_]+)\}/g)].map(([, name]) => name as string);
    // A value that is spelt as a fixed part of another path would ask for that.
    const value = fc.string({ unit: "binary", minLength: 1, maxLength: 80 }).map((text) => `~${text}`);
    fc.assert(
      fc.property(fc.array(value, { minLength: 3, maxLength: 3 }), (values) => {
        const found = router.find(route.method, pathOf(operation, values));
        const params = Object.fromEntries(names.map((name, index) => [name, values[index]]));
        expect(found).toEqual({ kind: "found", operation, params, query: "" });
      }),
      { numRuns: 20 },
    );
  });

  test("takes HEAD for GET, and an escaped letter for the letter", () => {
    expect(router.find("HEAD", "/api/v1/workflows")).toMatchObject({ operation: "listWorkflows" });
    expect(router.find("GET", "/api/v1/work%66lows/a%2Fb")).toMatchObject({
      operation: "getWorkflow",
      params: { id: "a/b" },
    });
  });

  test("leaves what follows the path out of it", () => {
    for (const [url, query] of [
      ["/api/v1/workflows?limit=1&x=/y?z", "limit=1&x=/y?z"],
      ["/api/v1/workflows?", ""],
      ["/api/v1/workflows#a?b", "a?b"],
      ["http://example.com/api/v1/workflows?a", "a"],
      ["HTTPS://example.com:1/api/v1/workflows", ""],
    ] as const) {
      expect(router.find("GET", url)).toMatchObject({ kind: "found", operation: "listWorkflows", query });
    }
  });

  test.each([
    "",
    "*",
    "/",
    "//api/v1/workflows",
    "/api/v1/workflows/",
    "/api/v1/workflows/a/",
    "/API/v1/workflows",
    "/api/v1/workflows/../workflows",
    "/api/v1/workflows/__proto__/constructor",
    `/api/v1/workflows/${"a".repeat(1_025)}`,
    "workflows",
    "http://example.com",
  ])("%s is no path", (url) => {
    expect(router.find("GET", url)).toEqual({ kind: "not_found", failure: { kind: "route_not_found" } });
  });

  test.each(["/api/v1/workflows/%", "/api/v1/workflows/%zz", "/nowhere/%ff"])(
    "%s is not spelt correctly",
    (url) => {
      expect(router.find("GET", url)).toMatchObject({ failure: { kind: "invalid_request" } });
    },
  );

  test("names the methods of a path that is asked with another", () => {
    const allowOf = (method: string, path: string) => router.find(method, path);
    expect(allowOf("PUT", "/api/v1/workflows")).toEqual({
      kind: "not_found",
      failure: { kind: "method_not_allowed", headers: { allow: "GET, HEAD, POST" } },
    });
    expect(allowOf("TRACE", "/api/v1/workflows/a")).toMatchObject({
      failure: { headers: { allow: "GET, HEAD, DELETE" } },
    });
    // The same path fits another operation with a value that is spelt like it.
    expect(allowOf("GET", "/api/v1/jobs/poll")).toMatchObject({ kind: "found", operation: "getJob" });
    expect(allowOf("POST", "/api/v1/jobs/poll")).toMatchObject({ kind: "found", operation: "pollJobs" });
  });

  test("knows only what it serves", () => {
    const health = createRouter(["live", "ready", "metrics"]);
    expect(health.find("GET", routes.live.path)).toMatchObject({ operation: "live" });
    expect(health.find("GET", "/api/v1/workflows")).toMatchObject({ failure: { kind: "route_not_found" } });
  });
});
