// How the command ends: one number per kind of ending, for scripts; the guide lists them from this table.
import { InterlockApiError, InterlockConnectionError } from "../sdk/client-errors.ts";
import { NoKeyError, NoServerError } from "./find-server.ts";
import { UsageError } from "./run-program.ts";

export const exitCodes = {
  ok: { code: 0, meaning: "done" },
  failed: { code: 1, meaning: "refused, failed, or a run that was waited for did not succeed" },
  usage: { code: 2, meaning: "the command was called wrongly" },
  unreachable: { code: 3, meaning: "no server answered; with a change it is unknown whether it was made" },
  notFound: { code: 4, meaning: "there is no such thing" },
  notAllowed: { code: 5, meaning: "no key, a wrong key, or one that may not do this" },
  timeout: { code: 6, meaning: "the run goes on, and --timeout has passed" },
  interrupted: { code: 130, meaning: "Ctrl-C; a run that was watched goes on" },
} as const;

export type Ending = keyof typeof exitCodes;

/** What the server said decides; a lost connection is never taken for a no. */
export function endingOf(error: unknown): Ending {
  if (error instanceof UsageError) return "usage";
  if (error instanceof InterlockConnectionError || error instanceof NoServerError) return "unreachable";
  if (error instanceof NoKeyError) return "notAllowed";
  if (!(error instanceof InterlockApiError)) return "failed";
  if (error.status === 404) return "notFound";
  // A stopped tenant is a refusal, not a matter of the key.
  const isAboutTheKey =
    error.status === 401 || error.code === "forbidden" || error.code === "tenant_mismatch";
  return isAboutTheKey ? "notAllowed" : "failed";
}
