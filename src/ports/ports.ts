// Everything that a flow may use from outside itself, handed over as its first argument.
import type { AuditAnchors } from "./audit-anchors.ts";
import type { Clock } from "./clock.ts";
import type { DefinitionJudge } from "./definition-judge.ts";
import type { Log } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import type { Random } from "./random.ts";
import type { Store } from "./store.ts";
import type { Tracer } from "./tracer.ts";

export type Ports = {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly tracer: Tracer;
  /** Judges definitions elsewhere; without one the process itself does. */
  readonly judge?: DefinitionJudge;
  /** Names this process to operators: it stands in every lock it holds. */
  readonly instance: string;
  /** Absent where nothing outlives the process: what it has sealed itself is remembered all the same. */
  readonly anchors?: AuditAnchors;
};
