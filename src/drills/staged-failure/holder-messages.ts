// What the program that holds a lock prints, one JSON object a line.

export type HolderMessage =
  | { readonly event: "holding"; readonly fence: number }
  /** What the resource answered to a write with the old fence. */
  | { readonly event: "wrote late"; readonly status: number }
  /** Whether the SDK still gave it what it needs for a write. */
  | { readonly event: "asked for headers"; readonly given: boolean }
  | { readonly event: "renewed late"; readonly answer: string }
  | { readonly event: "released late"; readonly answer: string }
  /** Why the SDK says that the lock was lost. */
  | { readonly event: "ended"; readonly lost: string };

/** Undefined for what Node itself may print. */
export function readHolderMessage(line: string): HolderMessage | undefined {
  return line.startsWith('{"event"') ? (JSON.parse(line) as HolderMessage) : undefined;
}
