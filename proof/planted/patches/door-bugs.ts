// The planted bugs at the gateway's doors: whose address counts, whose failures, which connections.
import type { TextPatch } from "../planted-bug.ts";

const doors = "test/e2e/gateway-doors.test.ts";
const connections = "test/e2e/gateway-connections.test.ts";
const tls = "test/e2e/gateway-tls.test.ts";
const commandKeys = "test/unit/cli-keys.test.ts";
const limits = "test/unit/gateway-limits.test.ts";
const addresses = "test/unit/client-address.test.ts";

export const plantedDoorBugs: readonly TextPatch[] = [
  {
    name: "proxy-hides-nobody",
    what: "a proxy on this machine opens /metrics to everybody behind it",
    edits: [
      {
        file: "src/gateway/authenticate-request.ts",
        find: `=== "loopback" && !isHidden && isLoopback(address)`,
        replace: `=== "loopback" && isLoopback(address)`,
      },
    ],
    tests: [doors],
  },
  {
    name: "first-hop-believed",
    what: "the client is read from the left of X-Forwarded-For, where it writes what it likes",
    edits: [
      {
        file: "src/gateway/authenticate-request.ts",
        find: "|| comma === -1 || !trusted.includes(address)) return address;",
        replace: "|| comma === -1) return address;",
      },
    ],
    tests: [addresses],
  },
  {
    name: "disagreeing-fields-believed",
    what: "Forwarded counts although X-Forwarded-For names another client",
    edits: [
      {
        file: "src/gateway/authenticate-request.ts",
        find: "client === undefined || !isAgreed ?",
        replace: "client === undefined ?",
      },
    ],
    tests: [addresses],
  },
  {
    name: "known-keys-compete",
    what: "a key that worked a moment ago is refused for the failures of others behind its address",
    edits: [
      {
        file: "src/gateway/authenticate-request.ts",
        find: "      if (isWithin(goodUntilMs, keyText)) return",
        replace: "      if (perMinute > 100_000) return",
      },
    ],
    tests: [limits],
  },
  {
    name: "returning-keys-wait",
    what: "a key that comes back has to compete with a flood of new ones, and never gets in",
    edits: [
      {
        file: "src/gateway/authenticate-request.ts",
        find: `refused.has(mark) || refusedBefore.has(mark) ? "again" : "first"`,
        replace: `refused.size < 0 ? "again" : "first"`,
      },
    ],
    tests: [doors, limits],
  },
  {
    name: "lookups-under-way-uncounted",
    what: "keys that are being asked about do not count: a thousand at once all reach the store",
    edits: [
      {
        file: "src/gateway/authenticate-request.ts",
        find: "for (const allowance of taken) allowance.asking += 1;",
        replace: "for (const allowance of taken) allowance.asking += 0;",
      },
    ],
    tests: [doors],
  },
  {
    name: "address-without-share",
    what: "one address may take all connections",
    edits: [
      {
        file: "src/gateway/connections.ts",
        find: "countOf(register, network) >= limits.perAddressMax",
        replace: "countOf(register, network) >= limits.max",
      },
    ],
    tests: [connections],
  },
  {
    name: "idle-connections-stay",
    what: "idle connections are not closed early: many addresses fill everything",
    edits: [
      {
        file: "src/gateway/connections.ts",
        find: `for (const connection of idle.slice(0, closedMax)) end(register, connection, "idle");`,
        replace: `for (const connection of idle.slice(0, 0)) end(register, connection, "idle");`,
      },
    ],
    tests: [connections],
  },
  {
    name: "work-is-cut",
    what: "connections with a request under way count as idle, and are closed for newcomers",
    edits: [
      {
        file: "src/gateway/connections.ts",
        find: "return begun.get(socket)?.every(isAnswered) ?? true;",
        replace: "return !socket.closed;",
      },
    ],
    tests: [connections],
  },
  {
    name: "reserve-for-all",
    what: "everybody may use the last places, so that none is left for health checks",
    edits: [
      {
        file: "src/gateway/http-requests.ts",
        find: "if (connections.isReserved(socket) && !responder.isKnown(exchange)) {",
        replace: "if (connections.isReserved(socket) && exchange === undefined) {",
      },
    ],
    tests: [connections],
  },
  {
    name: "mismatching-pair-used",
    what: "a certificate whose key is not there yet is used: every new connection fails",
    edits: [
      {
        file: "src/domain/certificate.ts",
        find: "if (!parsed.checkPrivateKey(privateKey))",
        replace: "if (parsed.ca && !parsed.checkPrivateKey(privateKey))",
      },
    ],
    tests: [tls],
  },
  {
    name: "old-tls-spoken",
    what: "clients may choose TLS 1.1",
    edits: [
      {
        file: "src/gateway/tls.ts",
        find: `minVersion: "TLSv1.2",\n  ciphers: [`,
        replace: `minVersion: "TLSv1",\n  ciphers: ["DEFAULT:@SECLEVEL=0",`,
      },
    ],
    tests: [tls],
  },
  {
    name: "key-in-a-usage-error",
    what: "a misspelt option is repeated with the key that follows it",
    edits: [
      {
        file: "src/cli/report-failure.ts",
        find: "return [redacted(error.message)];",
        replace: "return [error.message];",
      },
    ],
    tests: [commandKeys],
  },
  {
    name: "loose-key-file-unnoticed",
    what: "a key file that others may read is used without a word",
    edits: [
      {
        file: "src/cli/context.ts",
        find: "(mode & 0o077) === 0) return undefined;",
        replace: "mode >= 0) return undefined;",
      },
    ],
    tests: [commandKeys],
  },
];
