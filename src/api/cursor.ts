// Opaque places in a list: bound to the tenant and the list they came from, and with a checksum against edited ones.
import { hash } from "node:crypto";

/** `after` is the last item's position; only the list that made the cursor understands it. */
type CursorPosition = { readonly operation: string; readonly tenant: string; readonly after: string };

const version = 1;

export function writeCursor(place: CursorPosition): string {
  const { operation, tenant, after } = place;
  const text = JSON.stringify([version, operation, tenant, after, checksumOf(place)]);
  return Buffer.from(text).toString("base64url");
}

/** The position, or undefined when the cursor is damaged, another tenant's or another list's. */
export function readCursor(
  text: string,
  { operation, tenant }: Omit<CursorPosition, "after">,
): string | undefined {
  const fields = fieldsOf(text);
  if (fields === undefined || fields.length !== 5) return undefined;
  const [cursorVersion, cursorOperation, cursorTenant, after, checksum] = fields;
  if (cursorVersion !== version || cursorOperation !== operation || cursorTenant !== tenant) return undefined;
  if (typeof after !== "string" || checksum !== checksumOf({ operation, tenant, after })) return undefined;
  return after;
}

/** Not a signature: a list is read by (tenant, position) anyway, so a forged place shows nothing foreign. */
function checksumOf({ operation, tenant, after }: CursorPosition): string {
  return hash("sha256", JSON.stringify([operation, tenant, after])).slice(0, 12);
}

function fieldsOf(text: string): readonly unknown[] | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(text)) return undefined;
  try {
    const fields: unknown = JSON.parse(Buffer.from(text, "base64url").toString());
    return Array.isArray(fields) ? fields : undefined;
  } catch {
    return undefined;
  }
}
