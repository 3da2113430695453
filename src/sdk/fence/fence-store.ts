// Where the newest fence of each resource is kept: in memory, or wherever a tool keeps its own data.

export type FenceStore = {
  /**
   * One atomic step: compares with the highest fence seen of the resource, and remembers this one if it is not lower.
   * `superseded` when it is lower. The same fence is admitted again: one attempt may call many times. In SQL:
   *
   *     INSERT INTO fences (resource, fence) VALUES ($1, $2)
   *     ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence WHERE fences.fence <= excluded.fence
   *
   * One row changed is `admitted`, none is `superseded`. In the transaction of the write that it protects, nothing can come
   * between the two.
   */
  admit(resource: string, fence: number): Promise<FenceVerdict> | FenceVerdict;
};

export type FenceVerdict = "admitted" | "superseded";

/**
 * For one process that may forget: a restart begins anew, and of more than `resourcesMax` resources (100,000) the one that
 * was called for longest ago is forgotten.
 */
export function memoryFenceStore({ resourcesMax = 100_000 } = {}): {
  admit(resource: string, fence: number): FenceVerdict;
} {
  const highest = new Map<string, number>();
  return {
    admit(resource, fence) {
      const known = highest.get(resource);
      if (known !== undefined && fence < known) return "superseded";
      // The map keeps the order of insertion: what was called for last stands last.
      highest.delete(resource);
      highest.set(resource, fence);
      if (highest.size > resourcesMax) {
        const [oldest] = highest.keys();
        if (oldest !== undefined) highest.delete(oldest);
      }
      return "admitted";
    },
  };
}
