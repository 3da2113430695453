// Which atomicity domain a tenant belongs to: every operation touches the keys of exactly one partition.
import type { Brand } from "./brand.ts";
import type { TenantId } from "./tenant.ts";

export const partitionCount = 64;

export type Partition = Brand<number, "Partition">;

export const allPartitions: readonly Partition[] = Array.from(
  { length: partitionCount },
  (_, partition) => partition as Partition,
);

/** FNV-1a over the bytes of the id: the same on every machine and version, since stored keys depend on it. */
export function partitionOf(tenant: TenantId): Partition {
  let hash = 0x811c9dc5;
  // Tenant ids are ASCII, of which a character is its byte.
  for (let index = 0; index < tenant.length; index += 1) {
    hash ^= tenant.charCodeAt(index);
    hash = Math.imul(hash, 0x01000193) >>> 0;
  }
  return (hash % partitionCount) as Partition;
}

export function partitionLabel(partition: Partition): string {
  return `p${String(partition).padStart(2, "0")}`;
}
