// Whose address counts: ranges of trusted proxies, and what they say of the client.
import { describe, expect, test } from "vitest";
import { networkOf, plainAddress, readAddressRanges } from "../../src/domain/network-address.ts";
import { clientOf } from "../../src/gateway/authenticate-request.ts";
import { loadConfig } from "../../src/load-config.ts";

function rangesOf(text: string) {
  const ranges = readAddressRanges(text);
  if (ranges.kind !== "ranges") throw new Error(`not understood: ${ranges.entry}`);
  return ranges;
}

describe("ranges of addresses", () => {
  test.each([
    ["10.0.0.7", "10.0.0.7", true],
    ["10.0.0.7", "10.0.0.8", false],
    ["10.0.0.7", "::ffff:10.0.0.7", true],
    ["::ffff:10.0.0.7", "10.0.0.7", true],
    ["10.1.0.0/16", "10.1.255.3", true],
    ["10.1.0.0/16", "10.2.0.0", false],
    ["fd00::/8, 10.0.0.1", "fd12:3456::1", true],
    ["fd00::/8, 10.0.0.1", "10.0.0.1", true],
    ["fd00::/8", "fe80::1%eth0", false],
    ["fe80::/10", "fe80::1%eth0", true],
    ["loopback", "127.3.2.1", true],
    ["loopback", "::1", true],
    ["loopback", "10.0.0.1", false],
    ["", "127.0.0.1", false],
    ["10.0.0.0/8", "not an address", false],
  ])("%s and %s: %s", (text, address, expected) => {
    expect(rangesOf(text).includes(address)).toBe(expected);
  });

  test.each([
    "10.0.0",
    "10.0.0.1/33",
    "10.0.0.1/0",
    "::/0",
    "fd00::/129",
    "10.0.0.1/8/8",
    "10.0.0.1/",
    "10.0.0.1,",
    "::ffff:10.0.0.0/104",
    "loopback/8",
    "01.2.3.4",
  ])("%s is refused at the start, by name", (text) => {
    expect(readAddressRanges(text).kind).toBe("wrong");
    const load = () => loadConfig({ overrides: { "gateway.trustedProxies": text } });
    expect(load).toThrow(/gateway\.trustedProxies/);
  });
});

test.each([
  ["10.0.0.1", "10.0.0.1"],
  ["::ffff:10.0.0.1", "10.0.0.1"],
  ["2001:db8::1", "2001:db8:0:0::/64"],
  ["2001:DB8:0:0:1::", "2001:db8:0:0::/64"],
  ["2001:0db8:00:0001:aaaa:bbbb:cccc:dddd", "2001:db8:0:1::/64"],
  ["::1", "0:0:0:0::/64"],
  ["1::2:3:4:5:6:7", "1:0:2:3::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
])("%s is counted as %s", (address, network) => {
  expect(networkOf(address)).toBe(network);
});

describe("the client", () => {
  const trusted = rangesOf("10.0.0.0/8, loopback, fd00::/8");
  const seen = (peer: string, headers: Record<string, string>) => {
    const { address, isHidden } = clientOf(trusted, peer, headers);
    return isHidden ? `hidden behind ${address}` : address;
  };

  test("is the peer when no proxy passed the request on", () => {
    expect(seen("::ffff:192.0.2.1", {})).toBe("192.0.2.1");
    expect(seen("10.0.0.1", { host: "x" })).toBe("10.0.0.1");
  });

  test("is not believed when the proxy is not trusted", () => {
    expect(seen("192.0.2.1", { "x-forwarded-for": "127.0.0.1" })).toBe("hidden behind 192.0.2.1");
    expect(seen("192.0.2.1", { forwarded: "for=127.0.0.1" })).toBe("hidden behind 192.0.2.1");
  });

  test.each([
    ["192.0.2.7", "192.0.2.7"],
    ["192.0.2.7, 10.0.0.2", "192.0.2.7"],
    ["6.6.6.6, 192.0.2.7, 10.0.0.2,127.0.0.1", "192.0.2.7"],
    ["127.0.0.1, 192.0.2.7", "192.0.2.7"],
    ["nonsense, 192.0.2.7", "192.0.2.7"],
    ["10.0.0.3, 10.0.0.2", "10.0.0.3"],
    ["192.0.2.7:4711", "192.0.2.7"],
    ["[2001:db8::17]:4711", "2001:db8::17"],
    ["2001:db8::17", "2001:db8::17"],
    ["::ffff:192.0.2.7", "192.0.2.7"],
    ["192.0.2.7, nonsense", "hidden behind 10.0.0.1"],
    ["unknown", "hidden behind 10.0.0.1"],
    ["", "hidden behind 10.0.0.1"],
    ["192.0.2.7,", "hidden behind 10.0.0.1"],
    ["192.0.2.7.5", "hidden behind 10.0.0.1"],
    ["300.1.1.1", "hidden behind 10.0.0.1"],
  ])("in X-Forwarded-For: %s", (value, expected) => {
    expect(seen("10.0.0.1", { "x-forwarded-for": value })).toBe(expected);
  });

  test.each([
    ["for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"],
    ["For=192.0.2.60, for=10.0.0.2", "192.0.2.60"],
    [`for="[2001:db8:cafe::17]:4711"`, "2001:db8:cafe::17"],
    [`for="192.0.2.60:80";host="a;b"`, "hidden behind 10.0.0.1"],
    [`for="_, for=192.0.2.60`, "192.0.2.60"],
    [`for=192.0.2.60;host="x,for=6.6.6.6"`, "hidden behind 10.0.0.1"],
    [`for=192.0.2.60;host="x,for=6.6.6.6;a=\\"b"`, "hidden behind 10.0.0.1"],
    ["for=_hidden", "hidden behind 10.0.0.1"],
    ["for=unknown", "hidden behind 10.0.0.1"],
    ["by=10.0.0.1", "hidden behind 10.0.0.1"],
    ["for=192.0.2.60;for=127.0.0.1", "hidden behind 10.0.0.1"],
    ["192.0.2.60", "hidden behind 10.0.0.1"],
  ])("in Forwarded: %s", (value, expected) => {
    expect(seen("10.0.0.1", { forwarded: value })).toBe(expected);
  });

  test("is found behind whatever stands to its left, and not behind more than 20 hops", () => {
    const list = (value: string) => seen("10.0.0.1", { "x-forwarded-for": value });
    expect(list(`${"x".repeat(10_000)}, 192.0.2.7`)).toBe("192.0.2.7");
    expect(list(`192.0.2.7${", 10.0.0.2".repeat(19)}`)).toBe("192.0.2.7");
    expect(list(`192.0.2.7${", 10.0.0.2".repeat(20)}`)).toBe("hidden behind 10.0.0.1");
  });

  test("is hidden when the two fields do not agree, or when neither is there", () => {
    const both = (forwarded: string, list: string) =>
      seen("10.0.0.1", { forwarded, "x-forwarded-for": list });
    expect(both("for=192.0.2.7", "192.0.2.7")).toBe("192.0.2.7");
    expect(both("for=192.0.2.7", "192.0.2.8")).toBe("hidden behind 10.0.0.1");
    expect(both("for=192.0.2.7", "nonsense")).toBe("hidden behind 10.0.0.1");
    expect(both("nonsense", "192.0.2.7")).toBe("hidden behind 10.0.0.1");
    expect(seen("10.0.0.1", { via: "1.1 x" })).toBe("hidden behind 10.0.0.1");
    expect(seen("10.0.0.1", { "x-real-ip": "127.0.0.1" })).toBe("hidden behind 10.0.0.1");
  });

  test("has one spelling", () => {
    expect(plainAddress("::FFFF:10.0.0.1")).toBe("10.0.0.1");
    expect(plainAddress("fe80::1%eth0")).toBe("fe80::1");
  });
});
