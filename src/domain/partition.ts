// Which atomicity domain a tenant belongs to: every operation touches the keys of exactly one partition.
import type { Brand } from "./brand.ts";

export const partitionCount = 64;

export type Partition = Brand<number, "Partition">;

/** FNV-1a over the UTF-8 bytes: the same on every machine and version, since stored keys depend on it. */
export function partitionOf(tenant: string): Partition {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(tenant)) {
    hash ^= byte;
    hash = Math.imul(hash, 0x01000193) >>> 0;
  }
  return (hash % partitionCount) as Partition;
}

export function partitionLabel(partition: Partition): string {
  return `p${String(partition).padStart(2, "0")}`;
}
