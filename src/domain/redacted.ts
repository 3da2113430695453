// Takes secrets out of text that is about to be logged.
const charactersMax = 2_000;

/** API keys in any state of completeness, and passwords in addresses. */
const secrets = [/ilk_[A-Za-z0-9._-]+?_[0-9a-f]{16,}(?:_[0-9a-f]*)?/g, /(?<=\/\/[^/\s:@]*:)[^/\s@]+(?=@)/g];

export function redacted(text: string): string {
  const cut = text.length > charactersMax ? `${text.slice(0, charactersMax)}...` : text;
  return secrets.reduce((rest, pattern) => rest.replaceAll(pattern, "(redacted)"), cut);
}
