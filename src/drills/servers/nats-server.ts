// Starts real NATS servers with JetStream for drills and tests, each on a free port and with a folder of its own.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type ServerProcess, startServerProcess } from "./server-process.ts";

export type NatsServer = ServerProcess & { readonly url: string };

type NatsServerOptions = {
  /** More lines of its configuration: users, TLS, limits. */
  readonly config?: string;
  readonly jetStream?: boolean;
};

export async function startNatsServer(options: NatsServerOptions = {}): Promise<NatsServer> {
  const server = await startServerProcess({
    program: "nats-server",
    variable: "INTERLOCK_NATS_SERVER",
    version: "nats-server 2.9 or later",
    args: ({ port, folder }) => ["-c", writeConfig(folder, port, options)],
    // Only then is it ours that has the port.
    isUp: ({ output }) => output.includes("Server is ready"),
  });
  const url = `nats://127.0.0.1:${server.port}`;
  return {
    ...server,
    // Changes with a restart.
    get pid() {
      return server.pid;
    },
    url,
  };
}

function writeConfig(folder: string, port: number, options: NatsServerOptions): string {
  const file = join(folder, "nats.conf");
  const jetStream = options.jetStream === false ? "" : `jetstream { store_dir: ${JSON.stringify(folder)} }\n`;
  writeFileSync(file, `host: 127.0.0.1\nport: ${port}\n${jetStream}${options.config ?? ""}\n`);
  return file;
}
