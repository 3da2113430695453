// Which setting of the process each quota of a tenant is taken from, and what a tenant's own settings change of it.
import { expect, test } from "vitest";
import { processQuotas } from "../../src/control/tenants/tenants.ts";
import { type QuotaName, quotaNames, quotaOf } from "../../src/domain/tenant.ts";
import { loadConfig } from "../../src/load-config.ts";

const settings = {
  ...{ "quotas.apiKeys": 11, "quotas.workflows": 12, "quotas.definitions": 13, "quotas.activeRuns": 14 },
  ...{ "quotas.locks": 15, "quotas.lockTickets": 16, "events.tenantStreamsMax": 17 },
};
const quotas: Readonly<Record<QuotaName, number>> = {
  ...{
    api_keys: 11,
    workflows: 12,
    definitions: 13,
    active_runs: 14,
    locks: 15,
    lock_tickets: 16,
    streams: 17,
  },
};

test("each quota comes from its own setting", () => {
  expect(processQuotas(loadConfig({ overrides: settings }).config)).toEqual(quotas);
});

test.each(quotaNames)("a tenant's own %s counts for it alone", (name) => {
  expect(quotaOf({}, quotas, name)).toBe(quotas[name]);
  const own = { quotas: { [name]: 3 } };
  for (const each of quotaNames) expect(quotaOf(own, quotas, each)).toBe(each === name ? 3 : quotas[each]);
});
