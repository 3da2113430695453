// How the data gets a new owner: a replica by its Sentinel, a standby process for a folder, or whatever a deployment does.

import { runtime } from "../../sdk/runtime.ts";
import { type Check, check, type Stage } from "../drill.ts";
import { type Fault, faultByCommand, type Outage } from "../load/scene.ts";
import { waitUntil } from "../load/times.ts";
import type { RedisGroup } from "../servers/redis-failover.ts";
import type { ServeProcess } from "../target/serve-process.ts";
import type { OwnProcesses } from "../target/target.ts";

export type TakeOver = {
  /** Begins what has to be there before the fault; the answer resolves when it is. */
  prepare(signal: AbortSignal): Promise<void>;
  fault(nowMs: () => number): Fault;
  checks(): readonly Check[];
  phases(outage: Outage): ReadonlyArray<readonly [phase: string, ms: number]>;
  close(): Promise<void>;
};

export function openTakeOver(stage: Stage): TakeOver {
  const { processes } = stage.target;
  if (processes === undefined) return byOperators(stage);
  const group = processes.servers?.group;
  return group === undefined ? byStandby(processes) : bySentinel(group);
}

function bySentinel(group: RedisGroup): TakeOver {
  let promotedAtMs = 0;
  return {
    prepare: async () => {},
    fault(nowMs) {
      let old: Awaited<ReturnType<RedisGroup["namedMaster"]>> | undefined;
      return {
        striking: "killing the Redis primary",
        mending: "waiting for the Sentinel to name the replica",
        async strike() {
          old = await group.namedMaster();
          await old.kill();
        },
        async mend() {
          if (old === undefined) return;
          const next = await group.untilReplaced(old);
          promotedAtMs = nowMs();
          // A supervisor would start it; the Sentinel would tell it whom to follow, 10 s later.
          await old.restart();
          await old.command("REPLICAOF", "127.0.0.1", String(next.port));
          await group.untilReplicated();
        },
      };
    },
    checks: () => [],
    phases: ({ struckAtMs, backAtMs }) => [
      ["takeover: from the death of the primary to its replica as the new one", promotedAtMs - struckAtMs],
      [
        "takeover: until the new primary had a replica, without which it takes no writes",
        backAtMs - promotedAtMs,
      ],
    ],
    close: async () => {},
  };
}

const refusedWithinMs = 60_000;

function byStandby({ running, start }: OwnProcesses): TakeOver {
  let standby: Standby | undefined;
  return {
    async prepare(signal) {
      const waiting = startStandby(start);
      standby = waiting;
      await waitUntil("the standby is refused", () => waiting.refusals() > 0, {
        withinMs: refusedWithinMs,
        signal,
      });
    },
    fault: () => ({
      striking: "killing the server process that owns the data",
      mending: "waiting for the standby to get the folder",
      strike: async () => running[0]?.kill(),
      mend: async () => void (await standby?.taken),
    }),
    checks() {
      const refusals = standby?.refusals() ?? 0;
      return [
        check("starts of the standby refused while the first lived", "at least 1", refusals, refusals > 0),
      ];
    },
    phases: ({ struckAtMs, backAtMs }) => [
      ["takeover: from the death of the owner until the standby took requests", backAtMs - struckAtMs],
    ],
    close: async () => standby?.stop(),
  };
}

function byOperators({ options }: Stage): TakeOver {
  const fault = faultByCommand(options, {
    what: "the primary",
    example: {
      fault: "ssh redis-1 sudo systemctl kill -s KILL redis",
      mend: "ssh redis-1 sudo systemctl start redis",
    },
  });
  return {
    prepare: async () => {},
    fault: () => fault,
    checks: () => [],
    phases: ({ struckAtMs, backAtMs }) => [
      ["the fault, until its commands had ended", backAtMs - struckAtMs],
    ],
    close: async () => {},
  };
}

type Standby = {
  /** Starts that were refused because another process owns the data. */
  refusals(): number;
  /** Resolves when it has the folder and takes requests; rejects when it fails for another reason. */
  readonly taken: Promise<ServeProcess>;
  /** Starts no more; resolves when the last start is over. */
  stop(): Promise<void>;
};

const againAfterMs = 100;

function startStandby(start: () => Promise<ServeProcess>): Standby {
  const stopping = new AbortController();
  let refusals = 0;
  const waitForFolder = async () => {
    for (;;) {
      try {
        return await start();
      } catch (error) {
        if (!isRefusal(error) || stopping.signal.aborted) throw error;
        refusals += 1;
        await runtime.sleep(againAfterMs, stopping.signal);
      }
    }
  };
  const taken = waitForFolder();
  taken.catch(() => undefined);
  return {
    refusals: () => refusals,
    taken,
    async stop() {
      stopping.abort();
      await taken.catch(() => undefined);
    },
  };
}

/** The server says so in its last words. */
export function isRefusal(error: unknown): boolean {
  return error instanceof Error && error.message.includes("store_in_use");
}
