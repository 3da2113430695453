// Which names a piece of Lua needs from outside and which locals it leaves behind, read from its text.
// It knows as much of Lua as our scripts use: no goto, no long strings, no assignment to fields of unknown globals.

export type LuaPart = {
  /** The names that stand after "Reads:" and "Sets:" in its header; `parts` are those whose names are meant as well. */
  readonly reads: LuaNames;
  readonly sets: LuaNames;
  readonly body: string;
};

type LuaNames = { readonly names: readonly string[]; readonly parts: readonly string[] };

export type LuaScope = {
  /** Read or called without a local of this piece, in the order of their first use; names of Lua itself are left out. */
  readonly needed: readonly string[];
  /** Locals at its outermost level. */
  readonly left: readonly string[];
};

const ofLua = [
  ..."redis KEYS ARGV string table math tonumber unpack pairs ipairs type next select error pcall".split(" "),
];

const keywords = new Set(
  "and break do else elseif end false for function if in local nil not or repeat return then true until while".split(
    " ",
  ),
);

/** The text is a whole script or a part; its parts count with what their headers say. */
export function readScope(text: string, partOf: (name: string) => LuaPart): LuaScope {
  const scopes: Set<string>[] = [new Set(ofLua)];
  const needed = new Set<string>();
  const declare = (names: Iterable<string>) => {
    for (const name of names) scopes.at(-1)?.add(name);
  };
  const use = (name: string) => {
    if (!scopes.some((scope) => scope.has(name))) needed.add(name);
  };
  const tokens = tokensOf(text);
  /** Names that are declared by a statement count only after it: `local now = now` reads another `now`. */
  let pending: { readonly names: string[]; readonly until: number } | undefined;
  for (let at = 0; at < tokens.length; at += 1) {
    const token = tokens[at] as string;
    if (pending !== undefined && at >= pending.until) {
      declare(pending.names);
      pending = undefined;
    }
    if (token.startsWith("@")) {
      const part = partOf(token.slice(1));
      for (const name of readScope(part.body, partOf).needed) use(name);
      declare(part.sets.names);
    } else if (token === "local" && tokens[at + 1] === "function") {
      declare([tokens[at + 2] as string]);
      at = openFunction(tokens, at + 3, scopes) - 1;
    } else if (token === "function") {
      at = openFunction(tokens, at + 1, scopes) - 1;
    } else if (token === "local") {
      const { names, after } = nameList(tokens, at + 1);
      const hasValues = tokens[after] === "=";
      pending = { names, until: hasValues ? endOfValues(tokens, after + 1) : after };
      at = hasValues ? after : after - 1;
    } else if (token === "for") {
      const { names, after } = nameList(tokens, at + 1);
      const body = tokens.indexOf("do", after);
      for (const name of readScope(tokens.slice(after + 1, body).join(" "), partOf).needed) use(name);
      scopes.push(new Set(names));
      at = body;
    } else if (["do", "then", "repeat"].includes(token)) scopes.push(new Set());
    else if (token === "else" || token === "elseif") {
      scopes.pop();
      if (token === "else") scopes.push(new Set());
    } else if (token === "end" || token === "until") scopes.pop();
    else if (isName(token) && !isField(tokens, at)) use(token);
  }
  if (pending !== undefined) declare(pending.names);
  return { needed: [...needed], left: [...(scopes[0] ?? [])].filter((name) => !ofLua.includes(name)) };
}

/** The names with those of the parts that are named, all the way down. */
export function namesOf({ names, parts }: LuaNames, partOf: (name: string) => LuaPart): Set<string> {
  const all = new Set(names);
  for (const part of parts.map(partOf)) {
    for (const list of [part.reads, part.sets]) for (const name of namesOf(list, partOf)) all.add(name);
  }
  return all;
}

/** Reads the lists after "Reads:" and "Sets:", which end the header of a part: names, and "what `part` reads and sets". */
export function readPart(text: string): LuaPart {
  const header = /--\[\[([\s\S]*?)\]\]/.exec(text);
  const words = header?.[1] ?? "";
  const [beforeSets = "", sets = ""] = words.split(/^ +Sets: /m);
  const reads = beforeSets.split(/^ +Reads: /m)[1] ?? "";
  const listOf = (list: string): LuaNames => {
    const plain = list.replaceAll(/"[^"]*"/g, "").replaceAll(/\([^()]*\)/g, "");
    const parts = [...plain.matchAll(/`([a-z-]+)`/g)].map(([, name = ""]) => name);
    const names = plain
      .replaceAll(/[^,]*`[^,]*/g, "")
      .split(/,| and /)
      .map((name) => name.trim());
    return { parts, names: names.filter((name) => name !== "" && !name.startsWith("KEYS")) };
  };
  const body = text.slice((header?.index ?? 0) + (header?.[0].length ?? 0));
  return { reads: listOf(reads), sets: listOf(sets), body };
}

/** Names, numbers, operators; strings become `""`, comments go, and an included part is `@name`. */
function tokensOf(text: string): string[] {
  const plain = text
    .replace(/^#!lua.*$/m, "")
    .replaceAll(/--\[\[[\s\S]*?\]\]/g, "")
    .replaceAll(/^ *--@include ([a-z-]+)$/gm, "@$1")
    .replaceAll(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g, '""')
    .replaceAll(/--.*$/gm, "");
  return plain.match(/@[a-z-]+|[A-Za-z_]\w*|\d[\d.]*|""|\.\.\.?|[=~<>]=|[^\s\w]/g) ?? [];
}

const isName = (token: string) => /^[A-Za-z_]\w*$/.test(token) && !keywords.has(token);

/** `x.name`, `x:name` and `{ name = x }` are no variables. */
function isField(tokens: readonly string[], at: number): boolean {
  if (tokens[at - 1] === "." || tokens[at - 1] === ":") return true;
  return tokens[at + 1] === "=" && ["{", ","].includes(tokens[at - 1] as string) && isInTable(tokens, at);
}

function isInTable(tokens: readonly string[], at: number): boolean {
  let depth = 0;
  for (let index = at - 1; index >= 0; index -= 1) {
    const token = tokens[index] as string;
    if (token === "}" || token === ")") depth += 1;
    else if (token === "{" && depth === 0) return true;
    else if (token === "{" || token === "(") depth -= 1;
    else if (
      depth === 0 &&
      keywords.has(token) &&
      !["and", "or", "not", "nil", "true", "false"].includes(token)
    )
      return false;
  }
  return false;
}

function nameList(
  tokens: readonly string[],
  at: number,
): { readonly names: string[]; readonly after: number } {
  const names = [tokens[at] as string];
  let after = at + 1;
  for (; tokens[after] === ","; after += 2) names.push(tokens[after + 1] as string);
  return { names, after };
}

/** Opens the scope of a function whose argument list begins here, and says where its body does. */
function openFunction(tokens: readonly string[], at: number, scopes: Set<string>[]): number {
  const close = tokens.indexOf(")", at);
  scopes.push(new Set(tokens.slice(at + 1, close).filter((token) => token !== ",")));
  return close + 1;
}

/** Where the statement after these values begins: at a name, a literal's end or a closing bracket that nothing continues. */
function endOfValues(tokens: readonly string[], from: number): number {
  let depth = 0;
  for (let at = from; at < tokens.length; at += 1) {
    const token = tokens[at] as string;
    if (["(", "{", "[", "function"].includes(token)) depth += 1;
    else if ([")", "}", "]", "end"].includes(token)) depth -= 1;
    if (depth < 0) return at;
    if (depth === 0 && endsValue(token) && startsStatement(tokens[at + 1])) return at + 1;
  }
  return tokens.length;
}

const endsValue = (token: string) =>
  isName(token) || /^["\d]/.test(token) || [")", "}", "]", "nil", "true", "false", "end"].includes(token);

const startsStatement = (token: string | undefined) =>
  token === undefined ||
  token.startsWith("@") ||
  isName(token) ||
  ["local", "if", "for", "while", "return", "function", "end", "else", "elseif", "do", "repeat"].includes(
    token,
  );
