// A failure as clients get it: RFC 9457 problem JSON, with the fields that older clients read beside it.
import * as z from "zod";
import { type ErrorCode, errors } from "../errors.ts";
import { problem as placeOfProblem } from "./schemas.ts";

/** What is wrong with one request, besides its code. */
type ProblemDetails = {
  readonly detail?: string;
  /** Further members: `limit`, `active`, `run_id`, `problems`... They never replace the standard ones. */
  readonly more?: Readonly<Record<string, unknown>>;
  /** As the code says, unless this says otherwise. */
  readonly retryable?: boolean;
};

export const problemMediaType = "application/problem+json";

export const problemBody = z
  .looseObject({
    type: z.string(),
    title: z.string(),
    status: z.number(),
    detail: z.string(),
    error: z.string().meta({ description: "The title again, for older clients." }),
    code: z.string().meta({ description: "Decide by this; the reference lists all codes." }),
    retryable: z.boolean().meta({ description: "Whether the same request may succeed later." }),
    request_id: z.string(),
    problems: z.array(placeOfProblem).exactOptional(),
  })
  .meta({ id: "Problem" });

type ProblemBody = z.infer<typeof problemBody>;

export function problemOf(code: ErrorCode, details: ProblemDetails, requestId: string): ProblemBody {
  const { status, message, remedy } = errors[code];
  const standard = {
    type: `urn:interlock:error:${code}`,
    title: message,
    status,
    detail: details.detail ?? remedy,
    error: message,
    code,
    retryable: details.retryable ?? errors[code].retryable,
    request_id: requestId,
  };
  // Twice: first for the order in which people read them, last so that nothing replaces them.
  return { ...standard, ...details.more, ...standard };
}
