// interlock locks: who holds which lock, who waits for it, and breaking a lock as the last resort.
import { Option } from "commander";
import { type LockNamespace, lockNamespaces } from "../../domain/lock.ts";
import type { Cli, Context } from "../context.ts";
import { type ListOptions, readList, showList, withListOptions } from "../output.ts";
import { UsageError } from "../run-program.ts";
import { duration } from "../text.ts";
import { wholeNumber } from "../values.ts";

export function addLockCommands({ program, does }: Cli): void {
  const locks = program.command("locks").description("see who holds locks, and take one away");
  withListOptions(
    locks.command("list", { isDefault: true }).description("list the public locks that are held"),
  )
    .option("--all", "locks of all kinds, of all tenants; with a platform key")
    .option("--tenant <tenant>", "with --all: of this tenant only")
    .addHelpText("after", "\nExamples:\n  interlock locks\n  interlock locks --all --tenant acme")
    .action(does(listLocks));
  locks
    .command("show")
    .description("show the public lock of a resource")
    .argument("<resource>")
    .action(does(showLock));
  locks
    .command("break")
    .description("take a lock from its holder; the last resort")
    .argument("<name>", "the lock's name, as `interlock locks --all` lists it")
    .requiredOption("--fence <fence>", "of the grant that you saw: a newer one is left alone", wholeNumber)
    .requiredOption("--reason <text>", "why; it is kept in the audit trail")
    .addOption(
      new Option("--namespace <kind>", "what kind of lock").choices(lockNamespaces).default("public"),
    )
    .option("--tenant <tenant>", "whose lock it is; with a platform key")
    .addHelpText(
      "after",
      "\nExample:\n  interlock locks break repo/main --fence 17 --reason 'its machine burnt down'",
    )
    .action(does(breakLock));
}

type LocksOptions = ListOptions & { readonly all?: boolean; readonly tenant?: string };

async function listLocks(context: Context, options: LocksOptions): Promise<void> {
  if (options.all !== true && options.tenant !== undefined)
    throw new UsageError("--tenant needs --all: without it the locks are those of your key's tenant");
  await (options.all === true ? listAllLocks(context, options) : listPublicLocks(context, options));
}

const times = [
  { title: "fence", align: "right" },
  { title: "held for", align: "right" },
  { title: "expires in", align: "right" },
  { title: "waiting", align: "right" },
] as const;

type Held = {
  readonly fence: number;
  readonly held_for_ms: number;
  readonly expires_in_ms: number;
  readonly waiting: number;
};

const timesOf = ({ fence, held_for_ms, expires_in_ms, waiting }: Held) => [
  fence,
  duration(held_for_ms),
  duration(expires_in_ms),
  waiting,
];

async function listPublicLocks(context: Context, options: LocksOptions): Promise<void> {
  const client = context.client();
  const list = await readList(options, async (query) => {
    const answer = await client.call("listLocks", { query });
    // With a resource the answer is one lock; none is named here.
    return "items" in answer ? answer : { items: [answer], next_cursor: null };
  });
  showList(context, list, {
    none: "No public lock is held.",
    columns: ["resource", "owner", ...times],
    row: (lock) => [lock.resource, lock.owner, ...timesOf(lock)],
  });
}

async function listAllLocks(context: Context, options: LocksOptions): Promise<void> {
  const client = context.client("platform");
  const ofTenant = options.tenant === undefined ? {} : { tenant: options.tenant };
  const list = await readList(options, (page) =>
    client.call("listAllLocks", { query: { ...page, ...ofTenant } }),
  );
  showList(context, list, {
    none: "No lock is held.",
    columns: ["tenant", "kind", "name", "owner", "instance", ...times],
    row: (lock) => [lock.tenant, lock.namespace, lock.name, lock.owner, lock.instance, ...timesOf(lock)],
  });
}

async function showLock(context: Context, resource: string): Promise<void> {
  const answer = await context.client().call("listLocks", { query: { resource } });
  const lock = "items" in answer ? answer.items[0] : answer;
  context.output.answer(lock, () =>
    lock === undefined
      ? []
      : context.output.facts([
          ["resource", lock.resource],
          ["owner", lock.owner],
          ["fence", lock.fence],
          ["held for", duration(lock.held_for_ms)],
          ["expires in", duration(lock.expires_in_ms)],
          ["waiting", lock.waiting],
        ]),
  );
}

type BreakOptions = {
  readonly fence: number;
  readonly reason: string;
  readonly namespace: LockNamespace;
  readonly tenant?: string;
};

async function breakLock(context: Context, name: string, options: BreakOptions): Promise<void> {
  const { fence, reason, namespace, tenant } = options;
  const broken = await context.client(tenant === undefined ? "tenant" : "platform").call("breakLock", {
    body: { namespace, name, fence, reason, ...(tenant === undefined ? {} : { tenant }) },
  });
  context.output.answer(broken, () => [
    `Taken away: ${broken.namespace} ${broken.name}, fence ${broken.fence}.`,
  ]);
}
