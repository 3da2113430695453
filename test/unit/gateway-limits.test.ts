// What protects the gateway, by itself: failed authentications, requests under way, redaction, loopback addresses.
import { describe, expect, test } from "vitest";
import { makeKeyText } from "../../src/domain/api-key.ts";
import { redacted } from "../../src/domain/excerpt.ts";
import { isLoopback } from "../../src/domain/network-address.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import {
  createFailedAuthentications,
  type FailedAuthentications,
} from "../../src/gateway/authenticate-request.ts";
import { createInFlight } from "../../src/gateway/exchange.ts";
import { loadConfig } from "../../src/load-config.ts";
import type { Clock } from "../../src/ports/ports.ts";

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
  const keyOf = (number: number, keyId = `acme.${number}`) =>
    makeKeyText({ keyId, secret: number.toString(16).padStart(64, "0") });

  /** Asks about a key and ends it with the outcome, if it may be asked. */
  const tryKey = (
    failures: FailedAuthentications,
    address: string,
    text: string,
    outcome: "good" | "bad" | "trouble" = "bad",
  ) => {
    const check = failures.begin(address, text);
    if (check.kind === "ask") check.end(outcome);
    return check.kind === "wait" ? check.seconds : check.kind;
  };

  test("an address may fail its share in a minute, which comes back little by little", () => {
    const clock = handClock();
    const failures = createFailedAuthentications(clock, 3);
    const tries = (count: number, from: number) =>
      Array.from({ length: count }, (_, index) => tryKey(failures, "1.2.3.4", keyOf(from + index)));
    expect(tries(5, 1)).toEqual(["ask", "ask", "ask", 1, 1]);
    expect(tryKey(failures, "1.2.3.5", keyOf(6))).toBe("ask");
    clock.passMs(20_000);
    expect(tries(2, 10)).toEqual(["ask", 1]);
  });

  test("IPv6 addresses of one /64 share their allowance, and others do not", () => {
    const failures = createFailedAuthentications(handClock(), 1);
    expect(tryKey(failures, "2001:db8:0:1::1", keyOf(1))).toBe("ask");
    expect(tryKey(failures, "2001:DB8:0:1:ffff::2", keyOf(2))).toBe(1);
    expect(tryKey(failures, "2001:db8:0:2::1", keyOf(3))).toBe("ask");
    expect(tryKey(failures, "::ffff:10.0.0.1", keyOf(4))).toBe("ask");
    expect(tryKey(failures, "10.0.0.1", keyOf(5))).toBe(1);
  });

  test("a key id may fail its share, from whatever addresses", () => {
    const failures = createFailedAuthentications(handClock(), 2);
    const guess = (number: number) => tryKey(failures, `10.0.0.${number}`, keyOf(number, "acme.known"));
    expect([1, 2, 3, 4].map(guess)).toEqual(["ask", "ask", 1, 1]);
    expect(tryKey(failures, "10.0.0.4", keyOf(9))).toBe("ask");
  });

  test("a key that worked lately passes whatever its neighbours do, and one that stops working does not stay known", () => {
    const clock = handClock();
    const failures = createFailedAuthentications(clock, 1);
    expect(tryKey(failures, "10.0.0.1", keyOf(1), "good")).toBe("ask");
    expect(failures.isKnown(keyOf(1))).toBe(true);
    expect(failures.isKnown(keyOf(2))).toBe(false);
    expect(tryKey(failures, "10.0.0.1", keyOf(2))).toBe("ask");
    expect(tryKey(failures, "10.0.0.1", keyOf(3))).toBe(1);
    expect(tryKey(failures, "10.0.0.1", keyOf(1), "good")).toBe("ask");
    expect(tryKey(failures, "10.0.0.1", keyOf(1), "bad")).toBe("ask");
    expect(failures.isKnown(keyOf(1))).toBe(false);
    expect(tryKey(failures, "10.0.0.1", keyOf(1))).toBe("bad");
    clock.passMs(60_000);
    expect(failures.isKnown(keyOf(1))).toBe(false);
  });

  test("a key that comes back goes before keys never seen, however many of those there are", () => {
    const clock = handClock();
    const failures = createFailedAuthentications(clock, 60);
    for (let number = 1; number <= 60; number += 1) tryKey(failures, "10.0.0.1", keyOf(number));
    expect(tryKey(failures, "10.0.0.1", keyOf(1_000_000), "good")).toBe(1);
    for (let number = 100; number < 10_100; number += 1) tryKey(failures, "10.0.0.1", keyOf(number));
    clock.passMs(1_000);
    expect(tryKey(failures, "10.0.0.1", keyOf(1_000_000), "good")).toBe("ask");
  });

  test("what the store did not answer counts against nobody", () => {
    const failures = createFailedAuthentications(handClock(), 1);
    for (let number = 0; number < 10; number += 1) {
      expect(tryKey(failures, "10.0.0.1", keyOf(number), "trouble")).toBe("ask");
    }
    expect(tryKey(failures, "10.0.0.1", keyOf(1))).toBe("ask");
  });

  test("what is no key is refused without asking, and so is a key that was refused a moment ago", () => {
    const clock = handClock();
    const failures = createFailedAuthentications(clock, 10);
    expect(tryKey(failures, "10.0.0.1", "ilk_nonsense")).toBe("bad");
    expect(tryKey(failures, "10.0.0.1", keyOf(1))).toBe("ask");
    expect(tryKey(failures, "10.0.0.1", keyOf(1))).toBe("bad");
    clock.passMs(10_000);
    expect(tryKey(failures, "10.0.0.1", keyOf(1))).toBe("ask");
  });

  test("more addresses than it remembers cannot make it grow, and the latest are remembered", () => {
    const failures = createFailedAuthentications(handClock(), 1);
    const addressOf = (number: number) => `10.1.${number >> 8}.${number & 255}`;
    for (let number = 0; number < 12_000; number += 1) tryKey(failures, addressOf(number), keyOf(number));
    expect(tryKey(failures, addressOf(11_999), keyOf(20_000))).toBe(1);
    expect(tryKey(failures, addressOf(0), keyOf(20_001))).toBe("ask");
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
