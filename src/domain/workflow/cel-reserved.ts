// Lets expressions read `loop`, which CEL keeps as a reserved word and its parser therefore refuses as a name.

/** As long as the word itself, so that places in messages stay right. */
export const loopStandIn = "l__p";

/** Texts in quotes, comments, and names with the dot before them: only a name of its own is the variable. */
const lexemes =
  /"""(?:\\[\s\S]|[^\\])*?"""|'''(?:\\[\s\S]|[^\\])*?'''|"(?:\\[\s\S]|[^"\\])*"|'(?:\\[\s\S]|[^'\\])*'|\/\/[^\n]*|(?:\.\s*)?[A-Za-z_][A-Za-z0-9_]*/g;

/** The source as the parser takes it. Who writes the stand-in itself means nothing that exists. */
export function withStandIn(source: string): string {
  if (!source.includes("loop") && !source.includes(loopStandIn)) return source;
  return source.replace(lexemes, (lexeme) => {
    if (lexeme === "loop") return loopStandIn;
    return lexeme === loopStandIn ? unknownName : lexeme;
  });
}

/** Also four characters: registered nowhere, so it is refused like any other unknown name. */
const unknownName = "l_op";

/** A name of the syntax tree as its author wrote it. */
export function nameWritten(name: string): string {
  return name === loopStandIn ? "loop" : name;
}

export function textWritten(text: string): string {
  return text.replaceAll(loopStandIn, "loop");
}
