// Text that is shown or logged: shortened, and without secrets.

/** Enough to recognise a name or a number by. An answer is never longer because a request was. */
export function excerptOf(text: string, charactersMax = 60): string {
  return text.length <= charactersMax ? text : `${text.slice(0, charactersMax).toWellFormed()}...`;
}

const charactersMax = 2_000;

/** API keys in any state of completeness, and passwords in addresses. */
const secrets = [/ilk_[A-Za-z0-9._-]+?_[0-9a-f]{16,}(?:_[0-9a-f]*)?/g, /(?<=\/\/[^/\s:@]*:)[^/\s@]+(?=@)/g];

export function redacted(text: string): string {
  const cut = text.length > charactersMax ? `${text.slice(0, charactersMax)}...` : text;
  return secrets.reduce((rest, pattern) => rest.replaceAll(pattern, "(redacted)"), cut);
}
