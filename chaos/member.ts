// A process of the system under test that may die and come back: a gateway, an engine, the scheduler or a worker.
import { setTimeout as sleep } from "node:timers/promises";
import { type Child, startChild } from "./child.ts";

export type MemberKind = "gateway" | "engine" | "scheduler" | "worker";

export type Member = {
  readonly name: string;
  readonly kind: MemberKind;
  /** What it said when it was ready, the first time. */
  readonly firstWords: string;
  isUp(): boolean;
  /** SIGKILL: nothing is finished and nobody is told. */
  kill(): Promise<void>;
  /** SIGTERM; and SIGKILL when it does not end in time. */
  terminate(): Promise<void>;
  /** Again and again until it is up, as a process manager would: its servers may be away at the moment. */
  startAgain(): Promise<void>;
  pause(): void;
  resume(): void;
  output(): string;
  /** When it ended without being asked to, or not as it should. */
  ownEnds(): readonly string[];
  /** Nothing starts it again. */
  stop(): Promise<void>;
};

export type MemberOptions = {
  readonly name: string;
  readonly kind: MemberKind;
  /** `start` is 1 for the first. */
  argsFor(start: number): readonly string[];
  readonly settings?: Readonly<Record<string, string>>;
  readonly ready: RegExp;
};

/** The product's own limits for a stop are below this. */
const endsWithinMs = 15_000;
const pauseBeforeStartMs = 500;

export async function startMember(options: MemberOptions): Promise<Member> {
  const { name, kind, settings = {}, ready } = options;
  let starts = 1;
  let isStopped = false;
  let isUp = true;
  let said = "";
  const ownEnds: string[] = [];
  let child: Child = startChild({ name, args: options.argsFor(1), settings });
  const firstWords = await child.says(ready);
  const watch = (watched: Child) => {
    void watched.ended.then((end) => {
      if (child !== watched || !isUp) return;
      isUp = false;
      ownEnds.push(`${name} ended by itself with ${end}:\n${watched.output().slice(-2_000)}`);
    });
  };
  watch(child);
  return {
    name,
    kind,
    firstWords,
    isUp: () => isUp,
    async kill() {
      isUp = false;
      await child.kill();
    },
    async terminate() {
      isUp = false;
      child.signal("SIGTERM");
      const patience = new AbortController();
      const late = sleep(endsWithinMs, "late" as const, { signal: patience.signal }).catch(
        () => "late" as const,
      );
      const end = await Promise.race([child.ended, late]);
      patience.abort();
      if (end === "late") await child.kill();
      if (end !== 0)
        ownEnds.push(`${name} was told to stop and ended with ${end}:\n${child.output().slice(-2_000)}`);
    },
    async startAgain() {
      while (!isStopped) {
        said = child.output();
        starts += 1;
        child = startChild({ name, args: options.argsFor(starts), settings });
        const isReady = await child.says(ready).then(
          () => true,
          () => false,
        );
        isUp = isReady;
        if (isReady) {
          watch(child);
          return;
        }
        await child.kill();
        await sleep(pauseBeforeStartMs);
      }
    },
    pause: () => child.signal("SIGSTOP"),
    resume: () => child.signal("SIGCONT"),
    output: () => `--- ${name}, started ${starts} times ---\n${said}${child.output()}`,
    ownEnds: () => ownEnds,
    async stop() {
      isStopped = true;
      isUp = false;
      await child.kill();
    },
  };
}
