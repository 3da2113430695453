// What a planted bug is: a small change of the source that must make the named tests fail. Applied to copies only.
export type Edit = {
  readonly file: string;
  /** Must stand exactly once in the file. */
  readonly find: string;
  readonly replace: string;
};

export type PlantedBug = {
  readonly name: string;
  /** What the bug is, and what it would do to a user. */
  readonly what: string;
  readonly edits: readonly Edit[];
  /** Test files, at least one of which must fail. */
  readonly tests: readonly string[];
};
