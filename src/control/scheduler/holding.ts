// Whether jobs of high risk wait for the dispatch check, and whether it may be asked where the settings say.
import type { Config } from "../../config.ts";

/** A process that puts jobs up must know, also if it is another one that asks the check. */
export function holdsHighRisk(config: Config): boolean {
  const hold = config["dispatch.hold"];
  return hold === "high" || (hold === "auto" && config["dispatch.checkUrl"] !== "");
}

/** For a process that was given its check as a function: `auto` means that it has one. */
export function withDispatchCheck(config: Config): Config {
  return config["dispatch.hold"] === "auto" ? { ...config, "dispatch.hold": "high" } : config;
}
