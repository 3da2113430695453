// Randomness for the flows: ownership tokens that cannot be guessed, unique ids, and jitter.
export type Random = {
  /** At least 128 bits, letters and digits only. */
  token(): string;
  /** Uniform in [0, 1). */
  fraction(): number;
};
