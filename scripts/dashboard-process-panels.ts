// The dashboard's row of what runs are built on: the store, the bus, the process itself and the audit trail.
import type { PanelRow } from "./dashboard-panels.ts";
import { percentiles, perMinute, perSecond, series } from "./dashboard-queries.ts";

export const infrastructure: PanelRow = {
  title: "Store, bus, server and audit",
  panels: [
    {
      title: "Unknown outcomes per minute",
      about: "Store calls without an answer in time. They are asked again; nothing is guessed.",
      unit: "cpm",
      limit: 6,
      queries: [perMinute("unknown_outcomes_total", { by: ["operation"] })],
    },
    {
      title: "Connections to store and bus",
      about:
        "By process: 1 is connected. At 0 it serves nothing without the store, and a little slower without the bus.",
      unit: "short",
      queries: [
        { expr: `min by (instance) (${series("store_connected")})`, legend: "store {{instance}}" },
        { expr: `min by (instance) (${series("bus_connected")})`, legend: "bus {{instance}}" },
      ],
    },
    {
      title: "Store's time ahead of the wall clock",
      about: "By process. A jump: somebody set a wall clock, or another Redis server took over.",
      unit: "s",
      queries: [
        { expr: `min by (instance) (${series("store_clock_ahead_seconds")})`, legend: "{{instance}}" },
      ],
    },
    {
      title: "Longest block of the event loop",
      about:
        "Nobody was answered meanwhile. By the operation that computed; other is the machine, or collected garbage.",
      unit: "s",
      limit: 0.1,
      queries: percentiles("event_loop_block_seconds", [1], { by: ["operation"] }),
    },
    {
      title: "Blocks of the event loop per minute",
      about: "Of 100 ms and more (gateway.eventLoopBlockMs).",
      unit: "cpm",
      queries: [perMinute("event_loop_blocks_total", { legend: "blocks" })],
    },
    {
      title: "Log lines held back per minute",
      about: "The same line again, more than three times a minute: the log tells the number once a minute.",
      unit: "cpm",
      queries: [perMinute("log_repeats_total", { by: ["level"] })],
    },
    {
      title: "HTTP answers",
      about: "By status.",
      unit: "reqps",
      queries: [perSecond("http_requests_total", { by: ["status"] })],
    },
    {
      title: "HTTP latency, p95",
      about: "By operation, without polls and streams, which wait on purpose.",
      unit: "s",
      queries: percentiles("http_request_seconds", [0.95], {
        by: ["operation"],
        only: { operation: '!~"pollJobs|streamEvents|streamRunEvents|acquireLock"' },
      }),
    },
    {
      title: "Bus",
      about:
        "unavailable: NATS did not acknowledge; the sweep makes up for it. Refused messages were not ours.",
      unit: "cpm",
      queries: [
        perMinute("bus_publish_total", { by: ["stream", "outcome"] }),
        perMinute("bus_messages_refused_total", { by: ["reason"], legend: "refused: {{reason}}" }),
        perMinute("bus_reconnects_total", { legend: "reconnected" }),
      ],
    },
    {
      title: "Lateness of live events",
      about: "From an event being written to its being read for those who watch.",
      unit: "s",
      queries: percentiles("event_lateness_seconds", [0.5, 0.95]),
    },
    {
      title: "Audit trail",
      about: "Seals that were saved; gaps and broken verifications must stay at nothing.",
      unit: "cpm",
      queries: [
        perMinute("audit_seals_total", { by: ["outcome"], legend: "seal {{outcome}}" }),
        perMinute("audit_gaps_total", { by: ["why"], legend: "gap: {{why}}" }),
        perMinute("audit_verifications_total", { by: ["status"], legend: "verified: {{status}}" }),
      ],
    },
  ],
};
