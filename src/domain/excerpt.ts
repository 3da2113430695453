// The part of a refused value that the refusal repeats: its beginning, since the sender knows the rest.

/** Enough to recognise a name or a number by. An answer is never longer because a request was. */
export function excerptOf(text: string, charactersMax = 60): string {
  return text.length <= charactersMax ? text : `${text.slice(0, charactersMax).toWellFormed()}...`;
}
