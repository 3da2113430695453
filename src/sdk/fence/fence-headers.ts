// The header fields that carry a fence to whatever the work calls.

export const fenceField = "interlock-fence";
export const resourceField = "interlock-fence-resource";
export const jobField = "interlock-job";

type FencedCall = {
  /** What only the newest holder may touch. */
  readonly resource: string;
  readonly fence: number;
  /** The attempt, if it is a job's: a guard of the resource may ask whether it is still the current one. */
  readonly job?: string | undefined;
};

export function fenceHeaders({ resource, fence, job }: FencedCall): Readonly<Record<string, string>> {
  return {
    [fenceField]: String(fence),
    [resourceField]: encoded(resource),
    ...(job === undefined ? {} : { [jobField]: encoded(job) }),
  };
}

/** Names may hold letters of any script, header fields may not: what is not visible ASCII is percent-encoded. */
function encoded(name: string): string {
  return name.replaceAll(/[^\x21-\x24\x26-\x7e]+/gu, (text) => encodeURIComponent(text));
}

/** Undefined when it is not what `fenceHeaders` writes. */
export function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
