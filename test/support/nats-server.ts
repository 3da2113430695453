// Starts real NATS servers with JetStream for tests, each on a free port and with a folder of its own.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

export type NatsServer = {
  readonly port: number;
  readonly url: string;
  readonly pid: number;
  /** SIGSTOP: the kernel still accepts connections and bytes, and nobody answers. */
  pause(): void;
  resume(): void;
  /** SIGKILL: nothing is said to the clients but by the kernel. */
  kill(): Promise<void>;
  /** Starts again on the same port after `kill`, with what it had on disk. */
  restart(): Promise<void>;
  stop(): Promise<void>;
};

export type NatsServerOptions = {
  /** More lines of its configuration: users, TLS, limits. */
  readonly config?: string;
  readonly jetStream?: boolean;
};

const readyWithinMs = 10_000;
const startsMax = 5;

export async function startNatsServer(options: NatsServerOptions = {}): Promise<NatsServer> {
  const program = natsServerPath();
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "interlock-nats-")));
  folders.add(folder);
  for (let start = 1; ; start += 1) {
    const port = await freePort();
    try {
      return await serverOn({ program, port, folder, options });
    } catch (error) {
      // Somebody else may have taken the port since it was found free.
      if (start < startsMax) continue;
      removeFolder(folder);
      throw error;
    }
  }
}

/** Every server started and not yet stopped, and every folder: none may outlive the test process. */
const running = new Set<ChildProcess>();
const folders = new Set<string>();
const killRunning = () => {
  for (const child of running) child.kill("SIGKILL");
  for (const folder of folders) removeFolder(folder);
};
process.once("exit", killRunning);
// The test runner ends its workers with this signal, and a process that it ends does not come to "exit".
process.once("SIGTERM", () => {
  killRunning();
  process.kill(process.pid, "SIGTERM");
});

type Launch = {
  readonly program: string;
  readonly port: number;
  readonly folder: string;
  readonly options: NatsServerOptions;
};

async function serverOn(how: Launch): Promise<NatsServer> {
  const { port, folder } = how;
  let child = await launch(how);
  const kill = async () => {
    const stopped = exited(child);
    child.kill("SIGKILL");
    await stopped;
  };
  return {
    port,
    url: `nats://127.0.0.1:${port}`,
    get pid() {
      return child.pid as number;
    },
    pause: () => {
      child.kill("SIGSTOP");
    },
    resume: () => {
      child.kill("SIGCONT");
    },
    kill,
    async restart() {
      child = await launch(how);
    },
    async stop() {
      await kill();
      removeFolder(folder);
    },
  };
}

function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  folders.delete(folder);
}

/** Starts the server and waits until it says that it is ready: only then is it ours that has the port. */
async function launch({ program, port, folder, options }: Launch): Promise<ChildProcess> {
  const file = join(folder, "nats.conf");
  const jetStream = options.jetStream === false ? "" : `jetstream { store_dir: ${JSON.stringify(folder)} }\n`;
  writeFileSync(file, `host: 127.0.0.1\nport: ${port}\n${jetStream}${options.config ?? ""}\n`);
  const child = spawn(program, ["-c", file], { stdio: ["ignore", "pipe", "pipe"] });
  running.add(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      output = `${output}${chunk}`.slice(-4_000);
    });
  }
  child.once("exit", () => running.delete(child));
  child.once("error", (error) => {
    output += error.message;
    running.delete(child);
  });
  const deadline = performance.now() + readyWithinMs;
  for (;;) {
    if (output.includes("Server is ready")) return child;
    if (child.exitCode !== null || !running.has(child) || performance.now() > deadline) break;
    await delay(10);
  }
  child.kill("SIGKILL");
  throw new Error(`nats-server did not start on port ${port}:\n${output}`);
}

function natsServerPath(): string {
  const given = process.env.INTERLOCK_NATS_SERVER;
  const fetched = join(import.meta.dirname, "../../.servers/bin/nats-server");
  const path = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  const candidates =
    given === undefined ? [fetched, ...path.map((folder) => join(folder, "nats-server"))] : [given];
  const found = candidates.find((candidate) => existsSync(candidate));
  if (found !== undefined) return found;
  throw new Error(
    `There is no nats-server at ${given ?? `${fetched} or on the PATH`}. Install nats-server 2.9 or later, or run: ` +
      "node scripts/with-setup.mjs --servers -- npx vitest run <file>",
  );
}

function exited(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    child.once("exit", () => resolve());
  });
}

function freePort(): Promise<number> {
  return new Promise<number>((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
