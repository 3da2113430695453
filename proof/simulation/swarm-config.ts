// The configuration of the processes of a swarm, loaded once: to load it for every process took 3 % of a simulation.
import type { Config } from "../../src/config.ts";
import { loadConfig } from "../../src/load-config.ts";
import type { Swarm } from "./swarm.ts";

type Admission = Swarm["gateways"][number];

const loaded = new WeakMap<Swarm, Config>();
/** By strategy and wait: to copy all settings for every process was 3 % of all memory. */
const chosen = new WeakMap<Swarm, Map<string, Config>>();

export function configOf(swarm: Swarm): Config {
  const known = loaded.get(swarm);
  if (known !== undefined) return known;
  // Seals are computed outside the store and change nothing that is checked here.
  const unsealed = { "audit.sealEveryMs": 0 };
  const { config } = loadConfig({ overrides: { ...unsealed, ...swarm.config } });
  loaded.set(swarm, config);
  return config;
}

/** No rule of the configuration ties these two to others. */
export function configFor(swarm: Swarm, { strategy, wait }: Pick<Admission, "strategy" | "wait">): Config {
  const known = chosen.get(swarm) ?? new Map<string, Config>();
  chosen.set(swarm, known);
  const key = `${strategy} ${wait}`;
  const found = known.get(key);
  if (found !== undefined) return found;
  const config = { ...configOf(swarm), "admission.strategy": strategy, "admission.wait": wait };
  known.set(key, config);
  return config;
}
