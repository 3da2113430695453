// Records that are not quite what they should be: what the broken operations work on.
import type { Context, RecordKind, RecordKinds, Records } from "../../../src/adapters/operations/records.ts";

/** The same records with some methods replaced. */
export function over(context: Context, replaced: Partial<Records>): Context {
  const { records } = context;
  const view: Records = {
    get: (kind, scope, member) => records.get(kind, scope, member),
    put: (kind, scope, member, value) => records.put(kind, scope, member, value),
    erase: (kind, scope, member) => records.erase(kind, scope, member),
    size: (kind, scope) => records.size(kind, scope),
    scan: (kind, scope, after, limit) => records.scan(kind, scope, after, limit),
    scanBack: (kind, scope, before, limit) => records.scanBack(kind, scope, before, limit),
    ...replaced,
  };
  return { ...context, records: view };
}

/** Reading and writing records of one kind through a change. */
export function mapping<Kind extends RecordKind>(
  context: Context,
  kind: Kind,
  read: (value: RecordKinds[Kind] | undefined, member: string) => RecordKinds[Kind] | undefined,
  write: (value: RecordKinds[Kind]) => RecordKinds[Kind],
): Context {
  const { records } = context;
  return over(context, {
    get: <Asked extends RecordKind>(asked: Asked, scope: string, member: string) => {
      const value = records.get(asked, scope, member);
      if ((asked as RecordKind) !== kind) return value;
      return read(value as RecordKinds[Kind] | undefined, member) as RecordKinds[Asked] | undefined;
    },
    put: <Asked extends RecordKind>(
      asked: Asked,
      scope: string,
      member: string,
      value: RecordKinds[Asked],
    ) => {
      if ((asked as RecordKind) !== kind) records.put(asked, scope, member, value);
      else records.put(kind, scope, member, write(value as unknown as RecordKinds[Kind]));
    },
  });
}
