// Scopes and members as SQLite text: reversible for every string, and SQLite's byte order is the order of JavaScript.

/**
 * Nearly all keys are stored as they are. Three kinds of characters would not survive: the driver for Node 20 ends a text
 * at U+0000; half a surrogate pair is no valid text; and UTF-8 orders characters above U+FFFF after U+E000..U+FFFF,
 * JavaScript before. They become an escape character that sorts where they belong, and what tells them apart.
 */
export function encodeKey(key: string): string {
  if (isPlain(key)) return key;
  let text = "";
  for (let index = 0; index < key.length; index++) text += encodeUnit(key.charCodeAt(index));
  return text;
}

export function decodeKey(text: string): string {
  if (isPlain(text)) return text;
  let key = "";
  for (let index = 0; index < text.length; ) {
    const unit = text.charCodeAt(index);
    if (unit === lowEscape) {
      key += String.fromCharCode(text.charCodeAt(index + 1) - 1);
      index += 2;
    } else if (unit === highEscape) {
      key += String.fromCharCode(Number.parseInt(text.slice(index + 1, index + 5), 16));
      index += 5;
    } else {
      key += text[index];
      index += 1;
    }
  }
  return key;
}

/** Before U+0000 and U+0001: followed by U+0001 or U+0002. */
const lowEscape = 0x0001;
/** Before everything from U+D7FF on, which is itself no assigned character: followed by four hexadecimal digits. */
const highEscape = 0xd7ff;

function isPlain(text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (unit <= lowEscape || unit >= highEscape) return false;
  }
  return true;
}

function encodeUnit(unit: number): string {
  if (unit <= lowEscape) return String.fromCharCode(lowEscape, unit + 1);
  if (unit >= highEscape) return `${String.fromCharCode(highEscape)}${unit.toString(16)}`;
  return String.fromCharCode(unit);
}
