// Every setting: default, unit, bounds, environment name and why, by area. load-config.ts turns it into a configuration.
import { admissionSettings, queuesSettings, quotasSettings } from "./settings/admission.ts";
import { auditSettings, eventsSettings, gatewaySettings } from "./settings/gateway.ts";
import type { ChoiceSetting, NumberSetting, Setting } from "./settings/kinds.ts";
import { locksSettings } from "./settings/locks.ts";
import { dispatchSettings, runsSettings, workflowsSettings } from "./settings/runs.ts";
import { busSettings, processSettings, storeSettings } from "./settings/store.ts";

export type { ChoiceSetting, NumberSetting } from "./settings/kinds.ts";

/** The first choice of a choice setting is its default. Environment names are prefixed INTERLOCK_. */
export const settings = {
  ...processSettings,
  ...storeSettings,
  ...busSettings,
  ...admissionSettings,
  ...queuesSettings,
  ...locksSettings,
  ...workflowsSettings,
  ...runsSettings,
  ...quotasSettings,
  ...gatewaySettings,
  ...eventsSettings,
  ...auditSettings,
  ...dispatchSettings,
} as const;

export type SettingName = keyof typeof settings;
type ValueOf<Row> = Row extends NumberSetting
  ? number
  : Row extends ChoiceSetting<infer Choice>
    ? Choice
    : string;

/** Every setting's effective value by its name. */
export type Config = { readonly [Name in SettingName]: ValueOf<(typeof settings)[Name]> };

export function isWithinBounds(row: NumberSetting, value: unknown): value is number {
  if (typeof value !== "number" || !(value >= row.min && value <= row.max)) return false;
  return row.unit === "fraction" || Number.isInteger(value);
}

/** What a value must be, in words; also printed in the reference. */
export function bounds(row: Setting): string {
  switch (row.kind) {
    case "number":
      return `${row.unit === "fraction" ? "" : "whole, "}${row.min} to ${row.max} ${row.unit}`;
    case "choice":
      return row.choices.join(" or ");
    case "text": {
      const must = row.pattern.source === "." ? "any text" : `text like ${row.pattern.source}`;
      return row.optional ? `${must}, or empty` : must;
    }
  }
}
