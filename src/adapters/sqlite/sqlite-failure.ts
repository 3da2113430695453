// What an error of SQLite means for the store, from its result code.
type SqliteFailure =
  /** No room on the disk: nothing was kept, and it may work again later. */
  | "disk_full"
  /** The disk or the file can no longer be trusted: a failed write or fsync is never tried again. */
  | "broken"
  /** Another process, or another store of this one, has the file open. */
  | "in_use"
  /** Anything else, errors that are not SQLite's among them. */
  | "other";

export function failureOf(error: unknown): SqliteFailure {
  const code = resultCodeOf(error);
  // SQLITE_IOERR_SHMSIZE: 32 KiB for the index of the log do not fit; nothing of the data was touched.
  if (code === 4874) return "disk_full";
  // The low byte is the primary code; the bytes above it say more, such as which call failed.
  switch (code & 0xff) {
    case 5: // SQLITE_BUSY
    case 6: // SQLITE_LOCKED
      return "in_use";
    case 10: // SQLITE_IOERR
    case 11: // SQLITE_CORRUPT
    case 26: // SQLITE_NOTADB
      return "broken";
    case 13: // SQLITE_FULL
      return "disk_full";
    default:
      return "other";
  }
}

export function isCorruption(error: unknown): boolean {
  return [11, 26].includes(resultCodeOf(error) & 0xff);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** 0 for errors that are not SQLite's. */
function resultCodeOf(error: unknown): number {
  const code = error instanceof Error && "errcode" in error ? error.errcode : 0;
  return typeof code === "number" ? code : 0;
}
