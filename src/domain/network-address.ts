// What a request says of its origin: its network address, and the W3C trace context that its work carries on.
import { BlockList, isIP } from "node:net";

/** One spelling for each client: without a zone, and an IPv4 address never in its IPv6 form. */
export function plainAddress(address: string): string {
  if (!address.includes(":") && !address.includes("%")) return address;
  const withoutZone = address.includes("%") ? address.slice(0, address.indexOf("%")) : address;
  return /^::ffff:\d/i.test(withoutZone) && withoutZone.includes(".") ? withoutZone.slice(7) : withoutZone;
}

/** Addresses that only this machine reaches. */
export function isLoopback(address: string): boolean {
  const plain = plainAddress(address);
  return /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(plain) || plain === "::1" || plain === "localhost";
}

/** Who is counted as one client: an IPv4 address, or the 64 bits of an IPv6 address that one customer usually has whole. */
export function networkOf(address: string): string {
  const plain = plainAddress(address);
  if (!plain.includes(":")) return plain;
  const [before = "", after] = plain.split("::", 2);
  const groups = (text: string) => (text === "" ? [] : text.split(":"));
  const left = groups(before);
  // What follows `::` reaches into the first four groups only when at least five groups stand there.
  const right = after === undefined ? [] : groups(after);
  const zeros = Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => "0");
  const first = [...left, ...zeros, ...right].slice(0, 4);
  return `${first.map((group) => group.replace(/^0+(?=.)/, "").toLowerCase()).join(":")}::/64`;
}

export type AddressRanges = {
  readonly kind: "ranges";
  includes(address: string): boolean;
};

/** Reads a list such as `10.0.0.7, 10.1.0.0/16, fd00::/8, loopback`; the empty text is the empty list. */
export function readAddressRanges(text: string): AddressRanges | { readonly kind: "wrong"; entry: string } {
  const list = new BlockList();
  const entries = text.split(",").map((entry) => entry.trim());
  for (const entry of text.trim() === "" ? [] : entries) {
    if (!addEntry(list, entry)) return { kind: "wrong", entry };
  }
  return {
    kind: "ranges",
    includes(address) {
      const plain = plainAddress(address);
      const family = isIP(plain);
      return family !== 0 && list.check(plain, family === 4 ? "ipv4" : "ipv6");
    },
  };
}

function addEntry(list: BlockList, entry: string): boolean {
  if (entry === "loopback") {
    list.addSubnet("127.0.0.0", 8, "ipv4");
    list.addAddress("::1", "ipv6");
    return true;
  }
  const [written = "", length, ...more] = entry.split("/");
  const address = plainAddress(written);
  const family = isIP(address);
  if (family === 0 || more.length > 0) return false;
  const type = family === 4 ? "ipv4" : "ipv6";
  if (length === undefined) {
    list.addAddress(address, type);
    return true;
  }
  // Length 0 would be every address there is.
  const isLength = /^[1-9]\d{0,2}$/.test(length) && Number(length) <= (family === 4 ? 32 : 128);
  if (!isLength || address !== written) return false;
  list.addSubnet(address, Number(length), type);
  return true;
}

type TraceParts = {
  readonly traceId: string;
  readonly spanId: string;
  /** Two hexadecimal digits; the lowest bit says that the trace is recorded. */
  readonly flags: string;
};

const traceparentPattern = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

/** Version 00; anything else is dropped, as the recommendation asks: also ids of nothing but zeros. */
export function parseTraceparent(text: string): TraceParts | undefined {
  const [, traceId = "", spanId = "", flags = ""] = traceparentPattern.exec(text) ?? [];
  return isZero(traceId) || isZero(spanId) ? undefined : { traceId, spanId, flags };
}

/** The text if it is one, whatever was sent. */
export function readTraceparent(value: unknown): string | undefined {
  return typeof value === "string" && parseTraceparent(value) !== undefined ? value : undefined;
}

export function makeTraceparent({ traceId, spanId, flags }: TraceParts): string {
  return `00-${traceId}-${spanId}-${flags}`;
}

/** True for no id at all, too. */
const isZero = (id: string): boolean => /^0*$/.test(id);
