// How much a tenant has of everything that has a quota: the sizes of the sets themselves.
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import type { Context } from "./context.ts";
import { scopeOf } from "./documents.ts";
import { countHoldings } from "./holdings.ts";

export function countUsage(context: Context, request: RequestOf<"countUsage">): OutcomeOf<"countUsage"> {
  const { tenant } = request;
  const { records } = context;
  return {
    kind: "counted",
    used: {
      api_keys: records.size("document", scopeOf(tenant, "apiKey")),
      workflows: records.size("document", scopeOf(tenant, "workflow")),
      definitions: records.size("document", scopeOf(tenant, "definition")),
      active_runs: records.size("active", tenant),
      idempotency_keys: records.size("keyed", tenant),
      locks: countHoldings(context, `${tenant}/locks`),
      lock_tickets: countHoldings(context, `${tenant}/tickets`),
    },
  };
}
