// Redis and Valkey versions whose Lua engine has a published flaw that lets a script leave its sandbox.
import type { ServerInfo } from "./server-info.ts";

/** By branch (`major.minor`), the first version without the flaw. */
type FixedIn = Readonly<Record<string, string>>;

/** CVE-2025-49844, -46817 and -46818: a script can make the server run code of its own. */
const redisFixedIn: FixedIn = { "7.2": "7.2.11", "7.4": "7.4.6", "8.0": "8.0.4", "8.2": "8.2.2" };
const valkeyFixedIn: FixedIn = { "7.2": "7.2.11", "8.0": "8.0.6", "8.1": "8.1.4" };
/** CVE-2026-23479. */
const redisEightFixedIn = "8.6.3";

/** What the version is open to, or undefined. A distribution may have repaired an older version under its old number. */
export function knownFlaw(info: ServerInfo): string | undefined {
  const valkey = info("valkey_version");
  const version = valkey ?? info("redis_version") ?? "";
  const branch = version.split(".").slice(0, 2).join(".");
  const fixedIn = (valkey === undefined ? redisFixedIn : valkeyFixedIn)[branch];
  if (fixedIn !== undefined && isBelow(version, fixedIn)) {
    return `CVE-2025-49844 (remote code through Lua), fixed in ${fixedIn}`;
  }
  // The branch got no release of its own any more.
  if (branch === "7.0")
    return "CVE-2025-49844 (remote code through Lua), fixed in 7.2.11 and by distributions";
  if (valkey === undefined && version.startsWith("8.") && isBelow(version, redisEightFixedIn)) {
    return `CVE-2026-23479 (Lua), fixed in ${redisEightFixedIn}`;
  }
  return undefined;
}

function isBelow(version: string, other: string): boolean {
  const [ours, theirs] = [version, other].map((text) =>
    text.split(".").map((part) => Number.parseInt(part, 10) || 0),
  );
  for (let index = 0; index < 3; index += 1) {
    const difference = (ours?.[index] ?? 0) - (theirs?.[index] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}
