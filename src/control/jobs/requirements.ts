// Whether a worker has what a job asks for: every capability, and every label with the same value.
type Qualities = {
  readonly labels: Readonly<Record<string, string>>;
  readonly capabilities: readonly string[];
};

/** `requires` is the JSON that the engine wrote; most jobs ask for nothing. */
export function fitsRequirements(requires: string | undefined, worker: Qualities): boolean {
  if (requires === undefined) return true;
  const { labels = {}, capabilities = [] } = JSON.parse(requires) as Partial<Qualities>;
  return (
    capabilities.every((capability) => worker.capabilities.includes(capability)) &&
    Object.entries(labels).every(([label, value]) => worker.labels[label] === value)
  );
}
