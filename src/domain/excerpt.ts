// Text for people: shortened, without secrets, and with the names that a mistyped one may have meant.

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

const shownMax = 3;

/** The nearest first; only names that differ in few letters, or of which one begins with the other. */
export function similarTopics(topic: string, others: Iterable<string>): readonly string[] {
  return [...new Set(others)]
    .filter((other) => other !== topic)
    .map((other) => ({ other, distance: distanceOf(topic.toLowerCase(), other.toLowerCase()) }))
    .filter(({ other, distance }) => distance <= toleranceOf(topic) || sharesBeginning(topic, other))
    .sort((left, right) => left.distance - right.distance || (left.other < right.other ? -1 : 1))
    .slice(0, shownMax)
    .map(({ other }) => other);
}

/** A third of the letters, and never more than three. */
function toleranceOf(topic: string): number {
  return Math.max(1, Math.min(3, Math.floor(topic.length / 3)));
}

function sharesBeginning(topic: string, other: string): boolean {
  const [shorter, longer] = topic.length < other.length ? [topic, other] : [other, topic];
  return shorter.length >= 3 && longer.startsWith(shorter);
}

/** Letters to insert, remove, replace or swap with their neighbour; topics are at most 128 letters long. */
function distanceOf(left: string, right: string): number {
  const rows: number[][] = [Array.from({ length: right.length + 1 }, (_, index) => index)];
  const at = (row: number, column: number) => rows[row]?.[column] ?? 0;
  for (let row = 1; row <= left.length; row += 1) {
    rows.push([row]);
    for (let column = 1; column <= right.length; column += 1) {
      const isSame = left[row - 1] === right[column - 1];
      const isSwapped =
        row > 1 && column > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      const changes = [
        at(row - 1, column - 1) + (isSame ? 0 : 1),
        at(row - 1, column) + 1,
        at(row, column - 1) + 1,
      ];
      if (isSwapped) changes.push(at(row - 2, column - 2) + 1);
      rows[row]?.push(Math.min(...changes));
    }
  }
  return at(left.length, right.length);
}
