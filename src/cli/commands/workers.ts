// interlock workers: who asks for jobs, and what they work on.
import type { Cli, Context } from "../context.ts";
import { showList } from "../lists.ts";
import { duration } from "../text.ts";

export function addWorkerCommands({ program, does }: Cli): void {
  program.command("workers").description("list the workers seen lately").action(does(listWorkers));
}

async function listWorkers(context: Context): Promise<void> {
  const { output } = context;
  const list = await context.client().call("listWorkers");
  showList(context, list, {
    none: "No worker was seen lately.",
    lines: (items) =>
      output.table(
        ["worker", "pool", "topics", "running", "labels", "capabilities", { title: "seen", align: "right" }],
        items.map((worker) => [
          worker.worker_id,
          worker.pool,
          worker.topics.join(" "),
          `${worker.running} of ${worker.places}`,
          Object.entries(worker.labels)
            .map(([name, value]) => `${name}=${value}`)
            .join(" "),
          worker.capabilities.join(" "),
          `${duration(worker.last_seen_ms_ago)} ago`,
        ]),
      ),
  });
}
