// interlock events: what was changed in the tenant, page by page or as it happens.
import { Option } from "commander";
import type { Client } from "../../sdk/client.ts";
import type { TenantEvent } from "../../sdk/follow.ts";
import type { Cli, Context } from "../context.ts";
import { UsageError } from "../run-program.ts";
import { visible } from "../text.ts";
import { wholeNumber } from "../values.ts";

export function addEventCommands({ program, does }: Cli): void {
  program
    .command("events")
    .description("print the tenant's audit trail, oldest first, or follow it")
    .option("-f, --follow", "keep printing new events; Ctrl-C ends it")
    .option("--after <number>", "begin after the event of this number", wholeNumber)
    .option("--run <run>", "only those about this run")
    .option("-n, --limit <count>", "without --follow: how many at most", wholeNumber, 100)
    .addOption(new Option("--from <place>", "without --after: where to begin").choices(["start", "now"]))
    .option("--tenant <tenant>", "which tenant; with a platform key")
    .addHelpText(
      "after",
      "\nExamples:\n  interlock events --limit 20\n  interlock events --follow --json\n  interlock events --run run_... --after 4711",
    )
    .action(does(events));
}

type EventsOptions = {
  readonly follow?: boolean;
  readonly after?: number;
  readonly run?: string;
  readonly limit: number;
  readonly from?: "start" | "now";
  readonly tenant?: string;
};

async function events(context: Context, options: EventsOptions): Promise<void> {
  if (options.after !== undefined && options.from !== undefined)
    throw new UsageError("events: give --after or --from, not both");
  const client = context.client(options.tenant === undefined ? "tenant" : "platform");
  await (options.follow === true ? follow(context, client, options) : page(context, client, options));
}

/** One a line, as the stream has them: a list of thousands is read by programs that read lines. */
async function page(context: Context, client: Client, options: EventsOptions): Promise<void> {
  const { output } = context;
  const tenant = options.tenant === undefined ? {} : { tenant: options.tenant };
  let place: { readonly cursor: string } | { readonly from: "start" | "now" } =
    options.after === undefined ? { from: options.from ?? "start" } : { cursor: String(options.after) };
  for (let left = options.limit; left > 0; ) {
    const read = await client.call("readEvents", {
      query: { ...tenant, ...place, limit: Math.min(left, 500) },
    });
    if (
      read.reset &&
      options.after !== undefined &&
      "cursor" in place &&
      place.cursor === String(options.after)
    )
      output.note(`Events after ${options.after} are no longer kept: these begin at ${read.first}.`);
    for (const event of read.items) {
      if (options.run !== undefined && event.run_id !== options.run) continue;
      tell(context, event);
      left -= 1;
      if (left === 0) break;
    }
    if (!read.has_more) break;
    place = { cursor: read.next_cursor };
  }
}

async function follow(context: Context, client: Client, options: EventsOptions): Promise<void> {
  const { output, terminal } = context;
  const leaving = new AbortController();
  const stopListening = terminal.onInterrupt(() => leaving.abort());
  try {
    const followed = client.events.follow({
      signal: leaving.signal,
      ...(options.after === undefined ? {} : { after: options.after }),
      ...(options.from === undefined ? {} : { from: options.from }),
      ...(options.tenant === undefined ? {} : { tenant: options.tenant }),
    });
    for await (const event of followed) {
      if (event.kind === "reset")
        output.note(`Events before ${event.first} are no longer kept (${event.reason}).`);
      else if (options.run === undefined || event.data.run_id === options.run) tell(context, event.data);
    }
  } catch (error) {
    // Ctrl-C is how a follower ends.
    if (!leaving.signal.aborted) throw error;
  } finally {
    stopListening();
  }
}

function tell({ output }: Context, event: TenantEvent): void {
  const { sequence, at, type, subject, actor, detail } = event;
  output.item(event, () => [
    [
      output.paint("quiet", `${String(sequence).padStart(6)}  ${at}`),
      type.padEnd(18),
      visible(subject),
      visible(detail),
      output.paint("quiet", visible(`by ${actor}`)),
    ].join("  "),
  ]);
}
