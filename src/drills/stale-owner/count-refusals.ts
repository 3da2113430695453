// How often `lock not owned` was counted and logged while a drill ran.
import { type Check, check } from "../drill.ts";
import type { Target } from "../target/target.ts";

type Refusals = { readonly renew: number; readonly release: number };

export async function countRefusals(
  target: Target,
): Promise<{ check(expected: Refusals): Promise<readonly Check[]> }> {
  const before = await readRefusals(target);
  return {
    async check(expected) {
      const now = await readRefusals(target);
      const operations = ["renew", "release"] as const;
      const counted = operations.map((operation) => {
        const rise = now[operation] - before[operation];
        const what = `lock_not_owned_total{lock="public", operation="${operation}"}`;
        // On a deployment others may be refused at the same time.
        return target.kind === "deployment"
          ? check(what, `up by ${expected[operation]} or more`, `up by ${rise}`, rise >= expected[operation])
          : check(what, `up by ${expected[operation]}`, `up by ${rise}`, rise === expected[operation]);
      });
      return [...counted, ...checkLog(target, expected)];
    },
  };
}

async function readRefusals(target: Target): Promise<Refusals> {
  const reading = await target.readMetrics();
  const sum = (operation: string) => reading.sum("lock_not_owned_total", { lock: "public", operation });
  return { renew: sum("renew"), release: sum("release") };
}

/** Only where the drill has started the processes can it read what they print. */
function checkLog({ processes }: Target, { renew, release }: Refusals): readonly Check[] {
  if (processes === undefined) return [];
  const lines = processes.running.flatMap((process) => process.output().split("\n"));
  const found = lines.filter((line) => line.includes("lock not owned")).length;
  return [check("log lines `lock not owned`", String(renew + release), found, found === renew + release)];
}
