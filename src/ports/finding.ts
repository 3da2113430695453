// What an examination of a server, its settings or its clock found, and what to do about it.

export type Finding = {
  /** What was looked at, as an operator calls it: `redis 10.0.0.5:6379`, `nats stream interlock_hints`. */
  readonly subject: string;
  /** `ok` as it should be; `warn` works, but less safely or slower than it could; `fail` does not work. */
  readonly level: "ok" | "warn" | "fail";
  readonly message: string;
  /** What to do, as a command or a setting where there is one; for `warn` and `fail`. */
  readonly remedy?: string;
};
