// What came of a request: its answer, or the refusal that a step of a drill may have been waiting for.
import { InterlockApiError, type Problem } from "../../sdk/client-errors.ts";

type Asked<Value> =
  | { readonly kind: "answered"; readonly value: Value }
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly code: string;
      /** For people. */
      readonly title: string;
      /** Of a lock that is busy: who has it. */
      readonly holder: string | undefined;
    };

/** No answer at all is neither: it is thrown. */
export async function asked<Value>(request: Promise<Value>): Promise<Asked<Value>> {
  try {
    return { kind: "answered", value: await request };
  } catch (error) {
    if (!(error instanceof InterlockApiError)) throw error;
    const { title, holder } = error.problem as Problem & { readonly holder?: { readonly owner?: string } };
    return { kind: "refused", status: error.status, code: error.code, title, holder: holder?.owner };
  }
}

/** As a step shows it. */
export function describeOutcome<Value>(outcome: Asked<Value>, answered: string): string {
  if (outcome.kind === "answered") return answered;
  const { status, title, holder } = outcome;
  return `${status} ${title}${holder === undefined ? "" : `, held by ${holder}`}`;
}

export function isNotOwned(outcome: Asked<unknown>): boolean {
  return outcome.kind === "refused" && outcome.code === "lock_not_owned";
}

export function isHeldBy(outcome: Asked<unknown>, owner: string): boolean {
  return outcome.kind === "refused" && outcome.code === "lock_unavailable" && outcome.holder === owner;
}
