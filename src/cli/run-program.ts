// What every program here does around its work: tells failures in words, with what to do about them, and sets the exit code.
import { errors, InterlockError } from "../errors.ts";

export async function runProgram(usage: string, work: () => Promise<void>): Promise<void> {
  // A reader that has seen enough, such as `head`, is no failure.
  process.stdout.on("error", () => {});
  try {
    await work();
  } catch (error) {
    const isUsage = error instanceof UsageError || isParsing(error);
    console.error(isUsage ? `${(error as Error).message}\n${usage}` : explain(error));
    process.exitCode = isUsage ? 2 : 1;
  }
}

/** The program was called wrongly. */
export class UsageError extends Error {}

/** Of `parseArgs`. */
function isParsing(error: unknown): boolean {
  return error instanceof TypeError && "code" in error && String(error.code).startsWith("ERR_PARSE_ARGS");
}

function explain(error: unknown): string {
  if (error instanceof InterlockError)
    return `${error.message}\n${errors[error.code].remedy} (${error.code})`;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
