// What a job asks of a worker: every capability, and every label with the same value.

export type Qualities = {
  readonly labels: Readonly<Record<string, string>>;
  readonly capabilities: readonly string[];
};

/** `requires` is the JSON that the engine wrote; most jobs ask for nothing. */
export function fitsRequirements(requires: string | undefined, worker: Qualities): boolean {
  if (requires === undefined) return true;
  const { labels, capabilities } = readRequirements(requires);
  return (
    capabilities.every((capability) => worker.capabilities.includes(capability)) &&
    Object.entries(labels).every(([label, value]) => worker.labels[label] === value)
  );
}

/** What a worker lacks for the job: nothing when it fits. */
export function missingRequirements(requires: string | undefined, worker: Qualities): Qualities {
  const { labels, capabilities } = readRequirements(requires);
  return {
    capabilities: capabilities.filter((capability) => !worker.capabilities.includes(capability)),
    labels: Object.fromEntries(
      Object.entries(labels).filter(([label, value]) => worker.labels[label] !== value),
    ),
  };
}

function readRequirements(requires: string | undefined): Qualities {
  const { labels = {}, capabilities = [] } = JSON.parse(requires ?? "{}") as Partial<Qualities>;
  return { labels, capabilities };
}
