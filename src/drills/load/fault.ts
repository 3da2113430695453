// A fault under load, for a while: caused by the drill itself, or by commands of the operator of a deployment.
import { spawn } from "node:child_process";
import { runtime } from "../../sdk/runtime.ts";
import { DrillImpossible, type DrillOptions, type Stage } from "../drill.ts";
import type { Scene } from "./scene.ts";
import { cameTrue } from "./times.ts";

export type Fault = {
  /** As in `killing redis-server`, and `starting it again`. */
  readonly striking: string;
  readonly mending: string;
  strike(): Promise<void>;
  /** Resolves when what was broken is there again. */
  mend(): Promise<void>;
};

/** Since the load began. */
export type Outage = {
  /** When the fault was begun, when it was there, when it began to be mended, and when what was broken was back. */
  readonly struckAtMs: number;
  readonly awayAtMs: number;
  readonly mendingAtMs: number;
  readonly backAtMs: number;
};

export async function strikeUnderLoad(
  { signal }: Stage,
  scene: Scene,
  { fault, outageMs }: { readonly fault: Fault; readonly outageMs: number },
): Promise<Outage> {
  scene.progress(fault.striking);
  const struckAtMs = scene.nowMs();
  let awayAtMs = struckAtMs;
  try {
    await fault.strike();
    awayAtMs = scene.nowMs();
    await cameTrue(() => scene.nowMs() >= struckAtMs + outageMs, { withinMs: outageMs, signal });
  } catch (error) {
    // The fault is repaired however the drill ends.
    await fault.mend().catch(() => undefined);
    throw error;
  }
  scene.progress(fault.mending);
  const mendingAtMs = scene.nowMs();
  await fault.mend();
  const backAtMs = scene.nowMs();
  scene.progress(`back after ${((backAtMs - struckAtMs) / 1_000).toFixed(1)} s`);
  return { struckAtMs, awayAtMs, mendingAtMs, backAtMs };
}

type CommandsWanted = {
  /** What has to be broken, as in `the store`; and how that may be done. */
  readonly what: string;
  readonly example: { readonly fault: string; readonly mend?: string };
};

/** For a deployment: only its operators can break it. */
export function faultByCommand({ fault, mend }: DrillOptions, { what, example }: CommandsWanted): Fault {
  if (fault === undefined)
    throw new DrillImpossible(
      `This drill makes load and watches; on a deployment it cannot break ${what} itself. Pass the command that does: ` +
        `--fault '${example.fault}'${example.mend === undefined ? "" : `, and the one that mends it: --mend '${example.mend}'`}.`,
    );
  return {
    striking: `running the fault: ${fault}`,
    mending: mend === undefined ? "waiting for it to mend itself" : `running the mend: ${mend}`,
    strike: () => runCommand("--fault", fault),
    mend: async () => {
      if (mend !== undefined) await runCommand("--mend", mend);
    },
  };
}

const outputMax = 4_000;
const withinMs = 120_000;

/** By the shell, as it would be typed. */
export function runCommand(option: string, command: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn("sh", ["-c", command], { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    const cancel = runtime.timer(withinMs, () => child.kill("SIGKILL"));
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk: Buffer) => {
        output = `${output}${chunk.toString()}`.slice(-outputMax);
      });
    }
    child.once("error", reject);
    child.once("close", (code, signal) => {
      cancel();
      if (code === 0) resolve();
      else reject(new Error(`the command of ${option} ended with ${code ?? signal}: ${command}\n${output}`));
    });
  });
}
