// interlock events, audit: what changed, by page or as it happens; who changed it, and whether the records are as they were made.
import { InvalidArgumentError, Option } from "commander";
import { type EventType, eventTypes } from "../../domain/audit.ts";
import type { Client } from "../../sdk/client.ts";
import type { TenantEvent } from "../../sdk/follow.ts";
import type { AuditVerdict } from "../../sdk/groups/care.ts";
import type { Cli, Context } from "../context.ts";
import { type ListOptions, readList, showList, withListOptions } from "../output.ts";
import { UsageError } from "../run-program.ts";
import { shortened, visible } from "../text.ts";
import { wholeNumber } from "../values.ts";

export function addEventCommands({ program, does }: Cli): void {
  program
    .command("events")
    .description("print what changed in the tenant, oldest first, or follow it")
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
      printEvent(context, event);
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
      else if (options.run === undefined || event.data.run_id === options.run)
        printEvent(context, event.data);
    }
  } catch (error) {
    // Ctrl-C is how a follower ends.
    if (!leaving.signal.aborted) throw error;
  } finally {
    stopListening();
  }
}

function printEvent({ output }: Context, event: TenantEvent): void {
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

export function addAuditCommands({ program, does }: Cli): void {
  const audit = program
    .command("audit")
    .description(
      "the audit trail: what people decided, granted, limited, stopped and changed, chained by hashes",
    );
  withListOptions(audit.command("list", { isDefault: true }).description("list audit records, oldest first"))
    .option("--after <number>", "begin after the record of this number", wholeNumber)
    .addOption(new Option("--type <type>", "only records of this type").choices(eventTypes))
    .option("--actor <actor>", "only what this key or process did")
    .option("--tenant <tenant>", "which tenant; with a platform key")
    .addHelpText("after", "\nExample:\n  interlock audit list --type tenant_changed")
    .action(does(listRecords));
  audit
    .command("verify")
    .description("compare every record that is kept with its hash; exit code 1 when one was changed")
    .option("--tenant <tenant>", "which tenant, or platform for the platform itself; with a platform key")
    .option(
      "--expect <head>",
      "the head of an earlier verification: it must still be part of the chain",
      head,
    )
    .addHelpText(
      "after",
      "\nNote the head that is printed somewhere else: with --expect it proves later that nothing before it was rewritten.\n\nExample:\n  interlock audit verify --tenant acme",
    )
    .action(does(verify));
}

function head(text: string): string {
  if (!/^\d{1,12}:[A-Za-z0-9_-]{43}$/.test(text))
    throw new InvalidArgumentError("It must be a number, a colon and a hash, as audit verify prints it.");
  return text;
}

type RecordOptions = ListOptions & {
  readonly after?: number;
  readonly type?: EventType;
  readonly actor?: string;
  readonly tenant?: string;
};

async function listRecords(context: Context, options: RecordOptions): Promise<void> {
  if (options.after !== undefined && options.cursor !== undefined)
    throw new UsageError("audit list: give --after or --cursor, not both");
  const { type, actor, tenant, after } = options;
  const client = context.client(tenant === undefined ? "tenant" : "platform");
  const filter = {
    ...(type === undefined ? {} : { type }),
    ...(actor === undefined ? {} : { actor }),
    ...(tenant === undefined ? {} : { tenant }),
  };
  const list = await readList(options, (page) => {
    const begin = page.cursor === undefined && after !== undefined ? { after } : {};
    return client.call("readAudit", { query: { ...page, ...begin, ...filter } });
  });
  showList(context, list, {
    none: "No audit records.",
    columns: [{ title: "record", align: "right" }, "at", "type", "subject", "detail", "actor", "hash"],
    row: (record) => [
      record.sequence,
      record.at,
      record.type,
      shortened(record.subject, 48),
      shortened(record.detail, 60),
      shortened(record.actor_name ?? record.actor, 32),
      { text: record.hash?.slice(0, 10) ?? "not yet", tone: "quiet" },
    ],
  });
}

async function verify(
  context: Context,
  { tenant, expect }: { readonly tenant?: string; readonly expect?: string },
): Promise<void> {
  const client = context.client(tenant === undefined ? "tenant" : "platform");
  const verdict = await client.audit.verify({
    ...(tenant === undefined ? {} : { tenant }),
    ...(expect === undefined ? {} : { expect }),
  });
  const { output } = context;
  output.answer(verdict, () => verdictLines(context, verdict));
  if (verdict.status === "broken") context.end("failed");
}

const reasons: Readonly<Record<NonNullable<AuditVerdict["first_broken"]>["why"], string>> = {
  row_changed: "its row is not the one that was sealed",
  row_missing: "its row is gone, although it should still be kept",
  hash_changed: "its hash is not the one that was sealed",
  seal_changed: "the seal that begins there was changed",
  seal_missing: "the chain has a hole there: its seal is gone",
  other_secret: "it was sealed without the secret, or with another one",
};

const doubts: Readonly<Record<AuditVerdict["not_ruled_out"][number], string>> = {
  rewritten_unanchored:
    "somebody changed records and removed their seals: this server has noted no head yet (--expect names one)",
  rewritten_after_anchor:
    "somebody changed records that are newer than the head that is known, and removed their seals",
  recomputed_without_secret: "somebody computed genuine hashes for changed records: set audit.secret",
};

const tones = { intact: "good", incomplete: "busy", broken: "bad" } as const;

function verdictLines({ output }: Context, verdict: AuditVerdict): readonly string[] {
  const { first_broken: broken, gaps } = verdict;
  const unsealed = gaps.map(({ from, to, why }) => `${from} to ${to} (${why})`).join(", ");
  return [
    ...output.facts([
      ["status", { text: verdict.status, tone: tones[verdict.status] }],
      ["tenant", visible(verdict.tenant)],
      ["compared", `${verdict.total_events} records, ${verdict.kept_from} to ${verdict.sealed_to}`],
      ["never sealed", unsealed],
      ["expected head", verdict.expected],
      ["noted outside", verdict.anchored && `record ${verdict.anchored.sequence}: ${verdict.anchored.state}`],
      ["head", verdict.head ?? undefined],
    ]),
    ...(verdict.anchored?.state === "same"
      ? [`Ruled out: a change of any record up to ${verdict.anchored.sequence}, also by removing seals.`]
      : []),
    ...verdict.not_ruled_out.map((doubt) => output.paint("quiet", `Not ruled out: ${doubts[doubt]}.`)),
    ...(broken === undefined
      ? []
      : [
          output.paint(
            "bad",
            `Record ${broken.sequence} is the first that is broken: ${reasons[broken.why]}.`,
          ),
          "What to do: docs/runbooks/audit.md",
        ]),
  ];
}
