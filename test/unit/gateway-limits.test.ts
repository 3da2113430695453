// What protects the gateway, by itself: failed authentications, requests under way, redaction, loopback addresses.
import { describe, expect, test } from "vitest";
import { redacted } from "../../src/domain/redacted.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { isLoopback } from "../../src/gateway/authenticate-request.ts";
import { createFailedAuthentications } from "../../src/gateway/failed-authentications.ts";
import { createInFlight } from "../../src/gateway/in-flight.ts";
import { loadConfig } from "../../src/load-config.ts";
import type { Clock } from "../../src/ports/clock.ts";

function handClock(): Clock & { passMs(ms: number): void } {
  let nowMs = 1_000;
  return {
    monotonicMs: () => nowMs,
    wallMs: () => nowMs,
    sleep: () => Promise.resolve(),
    timer: () => () => {},
    yield: () => Promise.resolve(),
    passMs: (ms) => {
      nowMs += ms;
    },
  };
}

describe("failed authentications", () => {
  test("an address is refused after its share of failures, until the minute is over", () => {
    const clock = handClock();
    const failures = createFailedAuthentications(clock, 3);
    for (let index = 0; index < 3; index += 1) {
      expect(failures.refusedFor("1.2.3.4", "bad")).toBeUndefined();
      failures.failed("1.2.3.4");
    }
    expect(failures.refusedFor("1.2.3.4", "bad")).toBe(60);
    expect(failures.refusedFor("1.2.3.5", "bad")).toBeUndefined();
    clock.passMs(59_500);
    expect(failures.refusedFor("1.2.3.4", "bad")).toBe(1);
    clock.passMs(500);
    expect(failures.refusedFor("1.2.3.4", "bad")).toBeUndefined();
  });

  test("a key that worked lately is not locked out by its neighbours", () => {
    const clock = handClock();
    const failures = createFailedAuthentications(clock, 2);
    failures.failed("10.0.0.1");
    failures.succeeded("good key");
    failures.failed("10.0.0.1");
    expect(failures.refusedFor("10.0.0.1", "good key")).toBeUndefined();
    expect(failures.refusedFor("10.0.0.1", "other key")).toBeGreaterThan(0);
  });

  test("more addresses than it remembers cannot make it grow, and the latest are remembered", () => {
    const failures = createFailedAuthentications(handClock(), 1);
    for (let index = 0; index < 30_000; index += 1) failures.failed(`address ${index}`);
    expect(failures.refusedFor("address 29999", "")).toBeGreaterThan(0);
    expect(failures.refusedFor("address 0", "")).toBeUndefined();
  });
});

describe("requests under way", () => {
  const acme = "acme" as TenantId;
  const globex = "globex" as TenantId;
  const { config } = loadConfig({
    overrides: {
      "gateway.requestsInFlightMax": 3,
      "gateway.tenantRequestsInFlightMax": 2,
      "gateway.tenantPollsMax": 1,
    },
  });

  test("are bounded in all and per tenant, and places come back", () => {
    const inFlight = createInFlight(config);
    expect(inFlight.enterTenant("request", acme)).toBe("entered");
    expect(inFlight.enterTenant("request", acme)).toBe("entered");
    expect(inFlight.enterTenant("request", acme)).toBe("too_many_requests");
    expect(inFlight.enterTenant("request", globex)).toBe("entered");
    inFlight.leaveTenant("request", acme);
    expect(inFlight.enterTenant("request", acme)).toBe("entered");
    const entered = [1, 2, 3, 4].map(() => inFlight.enter("request"));
    expect(entered).toEqual(["entered", "entered", "entered", "overloaded"]);
    inFlight.leave("request");
    expect(inFlight.enter("request")).toBe("entered");
  });

  test("waiting polls do not take the places of requests", () => {
    const inFlight = createInFlight(config);
    for (let index = 0; index < 10; index += 1) expect(inFlight.enter("poll")).toBe("entered");
    expect(inFlight.enter("request")).toBe("entered");
    expect(inFlight.enterTenant("poll", acme)).toBe("entered");
    expect(inFlight.enterTenant("poll", acme)).toBe("too_many_requests");
    expect(inFlight.enterTenant("request", acme)).toBe("entered");
    expect(inFlight.total()).toBe(11);
  });
});

describe("redaction", () => {
  const secret = "0123456789abcdef".repeat(4);

  test("takes out keys, whole or cut, and passwords in addresses", () => {
    const text = `failed with ilk_acme.1f2e3d_${secret}_89abcdef at redis://user:hunter2@host:6379 and ilk_a.b_${secret.slice(0, 20)}`;
    const clean = redacted(text);
    expect(clean).not.toContain(secret.slice(0, 16));
    expect(clean).not.toContain("hunter2");
    expect(clean).toContain("failed with (redacted)");
    expect(clean).toContain("redis://user:(redacted)@host:6379");
  });

  test("cuts what is long", () => {
    expect(redacted("x".repeat(100_000)).length).toBeLessThan(2_100);
  });
});

test.each([
  ["127.0.0.1", true],
  ["127.8.9.10", true],
  ["::1", true],
  ["::ffff:127.0.0.1", true],
  ["localhost", true],
  ["0.0.0.0", false],
  ["::", false],
  ["10.0.0.1", false],
  ["127.0.0.1.example.com", false],
  ["", false],
])("%s is a loopback address: %s", (address, expected) => {
  expect(isLoopback(address)).toBe(expected);
});
