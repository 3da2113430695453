// What the flows tell an operator: a fixed message to search for, and fields that vary.
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

export type Log = {
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
};
