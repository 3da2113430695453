// Runs Prometheus' promtool, which with-setup provides; a test that needs it fails without it.
import { spawnSync } from "node:child_process";

type Ran = { readonly status: number | null; readonly output: string };

/** `input` is what it reads from its standard input. */
export function promtool(
  args: readonly string[],
  { cwd, input = "" }: { readonly cwd?: string; readonly input?: string } = {},
): Ran {
  const path = process.env.INTERLOCK_PROMTOOL;
  if (path === undefined || path === "") {
    throw new Error(
      "INTERLOCK_PROMTOOL is not set: run the test as node scripts/with-setup.mjs --servers -- npx vitest run <file>",
    );
  }
  const { status, stdout, stderr, error } = spawnSync(path, args, {
    ...(cwd === undefined ? {} : { cwd }),
    input,
    encoding: "utf8",
  });
  if (error !== undefined) throw error;
  return { status, output: `${stdout}${stderr}` };
}
