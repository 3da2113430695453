// Runs one child process to its end, passing on the signals this process gets.
import { spawn } from "node:child_process";
import { constants } from "node:os";

const FORWARDED_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"];

/**
 * Resolves once the child has ended. `exitCode` follows the shell's convention: 128 + n for a child ended
 * by signal n, 127 for a command that cannot be found. `stopCode` is 128 + n if this process got signal n
 * meanwhile, else null: it tells a child that failed from one that was asked to stop. With `capture` the
 * child's output is collected in `output` instead of being shown. `onStart` is given the child's pid.
 */
export function runCommand(command, args, options = {}) {
  const { cwd, env = process.env, stdio = "inherit", capture = false, onStart } = options;
  return new Promise((resolve) => {
    let output = "";
    let stopCode = null;
    const child = spawn(command, args, { cwd, env, stdio: capture ? ["ignore", "pipe", "pipe"] : stdio });
    if (child.pid !== undefined) onStart?.(child.pid);
    const forward = (signal) => {
      stopCode = codeOf(signal);
      child.kill(signal);
    };
    for (const signal of FORWARDED_SIGNALS) process.on(signal, forward);
    const finish = (result) => {
      for (const signal of FORWARDED_SIGNALS) process.off(signal, forward);
      resolve({ ...result, output, stopCode });
    };
    child.stdout?.on("data", (chunk) => {
      output += chunk;
    });
    child.stderr?.on("data", (chunk) => {
      output += chunk;
    });
    child.on("error", (error) => {
      // A failed kill is reported here too; only a child that never started ends the wait.
      if (child.pid === undefined) finish({ exitCode: error.code === "ENOENT" ? 127 : 126, error });
    });
    child.on("close", (code, signal) => {
      if (child.pid !== undefined) finish({ exitCode: code ?? codeOf(signal), error: null });
    });
  });
}

function codeOf(signal) {
  return 128 + constants.signals[signal];
}
