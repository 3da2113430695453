// The page docs/guide/capacity.md, whole: every number in it follows from docs/guide/capacity-input.json.
import { partitionCount } from "../src/domain/tenant.ts";
import {
  type CapacityInput,
  type InputName,
  type Needs,
  needsOf,
  perMemory,
  perThread,
  plan,
  retentionDaysAt,
  type Spread,
  spreadOf,
} from "./capacity-model.ts";

const sizes = [1_000, 10_000, 100_000];
const seeds = Array.from({ length: 9 }, (_, index) => index + 1);
const tenants = 1_000_000;
const exponents = [1, 1.1];
const partitionCounts = [partitionCount, 256, 1_024];

export function capacityPage(input: CapacityInput): string {
  const spreads = exponents.map((exponent) => ({
    exponent,
    byCount: partitionCounts.map((partitions) => spreadOf({ tenants, exponent, partitions, seeds })),
  }));
  const skewed = spreads[0]?.byCount[0] as Spread;
  return [
    "# Capacity",
    intro(input),
    "## What a rate needs",
    needsTable(input),
    needsNotes(input),
    "## What breaks first",
    limitsTable(input, skewed),
    "## Tenants and partitions",
    partitionsText(input, spreads),
    "## When 64 partitions are too few",
    tooFewText(input, spreads),
    "",
  ].join("\n\n");
}

function intro({ node, numbers }: CapacityInput): string {
  const us = (name: InputName) => number(numbers[name]);
  return `This page is computed by \`npm run capacity\` from [measured numbers](capacity-input.json): CPU time and bytes of one run of three
steps with small inputs, workers over HTTP, Node ${node}, on 2 cores of an AMD EPYC. Measure your own workflows and machine:

\`\`\`text
npm run bench:cpu -- --node 26        # CPU time of a run, by thread and server
npm run bench:bytes -- --node 26      # what a run keeps and sends
npm run capacity -- --node ${node}    # takes both, and writes this page anew
\`\`\`

| one three-step run | gateway | V8's helpers | Redis or SQLite thread | engine | NATS |
|---|---|---|---|---|---|
| cluster, us of CPU | ${us("cpu.cluster.run.gateway_us")} | ${us("cpu.cluster.run.gc_us")} | ${us("cpu.cluster.run.store_us")} | ${us("cpu.cluster.run.engine_us")} | ${us("cpu.cluster.run.bus_us")} |
| embedded, us of CPU | ${us("cpu.embedded.run.gateway_us")} | | ${us("cpu.embedded.run.store_us")} | | |

It keeps ${us("bytes.run.redis.memory_bytes")} bytes of memory in Redis, or ${us("bytes.run.embedded.disk_bytes")} bytes of disk in the embedded store: the run, its timeline, its audit records
and its idempotency key. Planned with: single-threaded parts busy for at most ${percent(plan.busyShare)} of the time, ${plan.retentionDays} days of
retention (\`retention.runDays\`), Redis masters of ${plan.masterGib} GiB of which ${percent(plan.memoryShareUsed)} is used, and a disk of twice what a master holds.
Rates are what must be carried for hours, not the average of a day.`;
}

function needsTable(input: CapacityInput): string {
  const all = sizes.map((size) => needsOf(input, size));
  const row = (title: string, cell: (needs: Needs) => string) =>
    `| ${title} | ${all.map(cell).join(" | ")} |`;
  return [
    row("three-step runs a second", ({ perSecond }) => number(perSecond)),
    "|---|---|---|---|",
    row("one embedded server: its busiest thread", ({ embeddedBusyShare }) =>
      embeddedBusyShare <= plan.busyShare
        ? `enough, ${percent(embeddedBusyShare)} busy`
        : `${number(embeddedBusyShare)} threads: no`,
    ),
    row("one embedded server: disk for a week", ({ embeddedDiskGib, embeddedBusyShare }) =>
      embeddedBusyShare <= plan.busyShare ? `${size(embeddedDiskGib)}` : "",
    ),
    row("gateways (one core and a half each)", ({ gateways }) => number(gateways)),
    row("cores busy with gateways", ({ gatewayCores }) => number(gatewayCores)),
    row("engines", ({ engines }) => number(engines)),
    row("Redis masters for the CPU, as many replicas", ({ mastersForCpu }) => number(mastersForCpu)),
    row(`Redis masters for a week in memory`, ({ mastersForMemory }) => number(mastersForMemory)),
    row("Redis memory for a week, without replicas", ({ redisGib }) => size(redisGib)),
    row("Redis memory for a day, the shortest retention", ({ redisGib }) =>
      size(redisGib / plan.retentionDays),
    ),
    row("Redis disk for a week, without replicas", ({ redisDiskGib }) => size(redisDiskGib)),
    row("NATS: cores busy, on three servers", ({ natsCores }) => number(natsCores)),
    row("network: clients and workers", ({ network }) => rate(network.http)),
    row("network: Redis, replication once more", ({ network }) => rate(network.redis)),
    row("network: NATS", ({ network }) => rate(network.nats)),
  ].join("\n");
}

function needsNotes(input: CapacityInput): string {
  const days = sizes.map((each) => `${number(retentionDaysAt(input, each))} days at ${number(each)}/s`);
  const shortest = perMemory(input, partitionCount) * plan.retentionDays;
  return `- Two gateways, two engines, a replica for each master and three NATS servers are for safety, also where one would carry the load.
- Memory for retention is the dearest part by far. ${partitionCount} masters of ${plan.masterGib} GiB, one for each partition, hold ${days.join(", ")}.
  Set \`retention.runDays\` and \`admission.keyRetentionDays\` to what is looked at, and read the event feed into a store of your own.
  The shortest retention is a day: above ${number(shortest)}/s masters must be larger, or there must be several deployments.
- Audit records are counted for a week here. They stay for \`audit.keepDays\`, at most \`audit.recordsPerTenantMax\` of each tenant.
- The model adds up what a run costs one gateway. A hint for a job that no worker of the same gateway waits for reaches every
  gateway: let every gateway have workers for every topic, or this part grows with their number.`;
}

type Limit = { readonly what: string; readonly perSecond: number; readonly remedy: string };

function limitsOf(input: CapacityInput, skewed: Spread): readonly Limit[] {
  const master = perThread(input, "cpu.cluster.run.store_us");
  const natsThread = perThread(input, "cpu.cluster.run.bus_us");
  const embedded = Math.min(
    perThread(input, "cpu.embedded.run.store_us"),
    perThread(input, "cpu.embedded.run.gateway_us"),
  );
  return [
    {
      what: "memory of one Redis master, for a week",
      perSecond: perMemory(input, 1),
      remedy: "shorter retention first; then a Cluster, or a larger server",
    },
    {
      what: "one embedded server: its busiest thread",
      perSecond: embedded,
      remedy: "move to Redis: gateways and engines as processes of their own",
    },
    {
      what: "one gateway: its main thread",
      perSecond: perThread(input, "cpu.cluster.run.gateway_us"),
      remedy: "more gateways, behind anything that balances connections",
    },
    {
      what: "one Redis master: its thread, and so one tenant",
      perSecond: master,
      remedy:
        "a Cluster spreads partitions over masters; a tenant that needs more must become several tenants",
    },
    {
      what: "NATS: one core",
      perSecond: natsThread,
      remedy: "nothing by hand: the server uses more cores; give every gateway workers for every topic",
    },
    {
      what: `memory of ${partitionCount} masters, for a week`,
      perSecond: perMemory(input, partitionCount),
      remedy: "shorter retention, larger masters, or more partitions",
    },
    {
      what: "the busiest of 64 partitions, a million tenants by Zipf (s = 1.0)",
      perSecond: master / skewed.busiestShare,
      remedy:
        "give the largest tenants a deployment of their own; more partitions help until the largest tenant fills one",
    },
    {
      what: "the network of one Redis master, 10 Gbit/s",
      perSecond: 10_000_000_000 / 8 / input.numbers["bytes.run.redis.network_bytes"],
      remedy: "far away: its thread is full long before",
    },
    {
      what: `${partitionCount} masters, tenants evenly spread`,
      perSecond: master * partitionCount,
      remedy: "more partitions, or a second deployment",
    },
  ];
}

function limitsTable(input: CapacityInput, skewed: Spread): string {
  const limits = [...limitsOf(input, skewed)].sort((left, right) => left.perSecond - right.perSecond);
  const nextTo = (size: number) =>
    limits.filter(({ perSecond }) => perSecond <= size).map(({ what }) => what).length;
  const rows = limits.map(
    ({ what, perSecond, remedy }) => `| ${what} | ${number(perSecond)}/s | ${remedy} |`,
  );
  const counts = sizes.map((size) => `${nextTo(size)} below ${number(size)}/s`);
  return `In the order in which they are reached (${counts.join(", ")}):

| limit | three-step runs | what to do then |
|---|---|---|
${rows.join("\n")}`;
}

type Spreads = ReadonlyArray<{ readonly exponent: number; readonly byCount: readonly Spread[] }>;

function partitionsText(input: CapacityInput, spreads: Spreads): string {
  const master = perThread(input, "cpu.cluster.run.store_us");
  const rows = spreads.flatMap(({ exponent, byCount }) =>
    byCount.map((spread, index) => {
      const cells = [
        exponent.toFixed(1),
        number(partitionCounts[index] ?? 0),
        percent(spread.largestTenantShare),
        `${number(spread.busiest)} (worst draw ${number(spread.worst)})`,
        `${number(master / spread.busiestShare)}/s`,
      ];
      return `| ${cells.join(" | ")} |`;
    }),
  );
  return `All records of a tenant live in one partition, and a partition on one Redis master. A million tenants whose load falls with their
rank by Zipf's law, their names hashed as the product hashes them, ${seeds.length} draws with fixed seeds:

| Zipf's s | partitions | load of the largest tenant | busiest partition / average | all runs a second when its master is full |
|---|---|---|---|---|
${rows.join("\n")}

- The largest tenant makes the busiest partition. On one partition it can have ${number(master)} three-step runs a second.
- Without such tenants partitions are even: of a million equal ones the busiest of ${partitionCount} has ${percent(evenExcess())} more than the average.
- On the embedded store partitions share one thread; skew does not matter there.`;
}

function evenExcess(): number {
  return spreadOf({ tenants, exponent: 0, partitions: partitionCount, seeds: seeds.slice(0, 1) }).busiest - 1;
}

function tooFewText(input: CapacityInput, spreads: Spreads): string {
  const master = perThread(input, "cpu.cluster.run.store_us");
  const gains = spreads.map(({ exponent, byCount }) => {
    const [few, , many] = byCount as [Spread, Spread, Spread];
    const [now, then] = [master / few.busiestShare, master / many.busiestShare];
    return `${number(now)} to ${number(then)} runs a second with s = ${exponent.toFixed(1)}`;
  });
  return `- **CPU**: above ${number(master * partitionCount)} runs a second with even tenants; there is no 65th master to add.
- **Memory**: above ${size(partitionCount * plan.masterGib)} in all, unless masters become larger than ${plan.masterGib} GiB.
- **Skew**: 1,024 partitions instead of ${partitionCount} raise what a skewed load may be from ${gains.join(", and ")}: the largest tenant
  is in the way, not the number. A second deployment for the largest tenants helps sooner, and works today.

How a deployment would get more partitions without losing data is [designed](../adr/0055-more-partitions.md) and not built.`;
}

/** Three digits that matter; what is whole stays as it is. */
function number(value: number): string {
  const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  const rounded = value >= 1_000 && !Number.isInteger(value) ? Number(value.toPrecision(3)) : value;
  return rounded.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

const percent = (share: number) => `${number(share * 100)} %`;
const size = (gib: number) => (gib >= 1_024 ? `${number(gib / 1_024)} TiB` : `${number(gib)} GiB`);
const rate = (megabits: number) =>
  megabits >= 1_000 ? `${number(megabits / 1_000)} Gbit/s` : `${number(megabits)} Mbit/s`;
