// The peer DBOS: a library in a process of its own, on a PostgreSQL server that nobody else has.
import { execFileSync } from "node:child_process";
import { chmodSync, chownSync, mkdtempSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { freePort } from "../src/drills/servers/start-servers.ts";
import { type PeerServer, runForNumbers, startPeerServer } from "./peer-process.ts";
import { enginesFolder, type PeersRound, type PeerVariant, threeStepFields } from "./peers-plan.ts";

type Tuning = {
  /** Of DBOS. */
  readonly settings: object;
  /** Of PostgreSQL, as `-c` takes them. */
  readonly server: readonly string[];
};

const asInstalled: Tuning = { settings: {}, server: [] };
/** A pool of 20 made 650 runs a second, its own default of 10 made 600, and 50 made 565; memory as PostgreSQL's documentation has it. */
const tuned: Tuning = {
  settings: { systemDatabasePoolSize: 20 },
  server: ["shared_buffers=1GB", "max_wal_size=8GB", "checkpoint_timeout=30min", "jit=off"],
};
/** A crash of the machine loses the last moments. */
const unsynced: Tuning = { ...tuned, server: [...tuned.server, "synchronous_commit=off"] };

export const dbosVariants: readonly PeerVariant[] = [
  variant("peer.dbos.three_step", "DBOS on PostgreSQL", asInstalled),
  variant("peer.dbos.tuned.three_step", "DBOS, pool of 20, PostgreSQL tuned", tuned),
  variant("peer.dbos.unsynced.three_step", "DBOS, tuned, synchronous_commit=off", unsynced),
];

function variant(name: string, title: string, tuning: Tuning): PeerVariant {
  const onDisk = tuning === unsynced ? "within moments" : "yes";
  return {
    ...{ peer: "dbos", name, title, onDisk, timeline: "steps, kept" },
    fields: threeStepFields,
    async measure({ folder, scale }) {
      const server = await startPostgres(folder, tuning.server);
      try {
        return await runDbos(server.url, tuning.settings, scale);
      } finally {
        await server.stop();
      }
    },
  };
}

function runDbos(url: string, settings: object, scale: PeersRound["scale"]) {
  const { warmUpMs, saturationMs, oneByOneRuns } = scale;
  const options = { settings, warmUpMs, saturationMs: saturationMs / 2, oneByOneRuns };
  const program = join(enginesFolder, "dbos-three-step.mjs");
  return runForNumbers<keyof typeof threeStepFields>([
    "--no-deprecation",
    program,
    url,
    JSON.stringify(options),
  ]);
}

/** Why it cannot be measured here; nothing when it can. */
export async function tryDbos(folder: string): Promise<string | undefined> {
  const server = await startPostgres(folder, []);
  await server.stop();
  return undefined;
}

const user = "bench";
/** PostgreSQL refuses to run as root: then it runs as the user `nobody` has on every Linux. */
const nobody = 65_534;

async function startPostgres(
  folder: string,
  settings: readonly string[],
): Promise<PeerServer & { readonly url: string }> {
  const { postgres, initdb } = await findPostgres();
  const home = mkdtempSync(join(folder, "postgres-"));
  const asUser = process.getuid?.() === 0 ? { user: nobody } : {};
  if (asUser.user !== undefined) {
    // Temporary folders are closed to others.
    chmodSync(folder, 0o711);
    chownSync(home, asUser.user, asUser.user);
  }
  const data = join(home, "data");
  initialise(initdb, data, asUser);
  const port = await freePort();
  const all = ["listen_addresses=127.0.0.1", "unix_socket_directories=", `port=${port}`, ...settings];
  const server = await startPeerServer({
    program: postgres,
    args: ["-D", data, ...all.flatMap((setting) => ["-c", setting])],
    ...asUser,
    isUp: (output) => output.includes("database system is ready to accept connections"),
  });
  return { ...server, url: `postgresql://${user}@127.0.0.1:${port}/bench` };
}

function initialise(initdb: string, data: string, asUser: { readonly user?: number }): void {
  const words = ["-D", data, "-U", user, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"];
  const ids = asUser.user === undefined ? {} : { uid: asUser.user, gid: asUser.user };
  try {
    execFileSync(initdb, words, { stdio: "pipe", encoding: "utf8", cwd: dirname(data), ...ids });
  } catch (error) {
    const said = (error as { readonly stderr?: string }).stderr ?? "";
    const cause = `${said}${said === "" ? (error as Error).message : ""}`.trim();
    const advice =
      asUser.user === undefined
        ? ""
        : `\nPostgreSQL does not run as root, so it was run as user ${nobody}, who must be let into ${data} and ${initdb}. ` +
          "Run the benchmark as an ordinary user, or from a folder that others may enter.";
    throw new Error(`${initdb} failed: ${cause}${advice}`, { cause: error });
  }
}

/** On the PATH, or Debian's, fetched into .servers. */
async function findPostgres(): Promise<{ readonly postgres: string; readonly initdb: string }> {
  const root = dirname(import.meta.dirname);
  const script = pathToFileURL(join(root, "scripts/setup/servers.mjs"));
  const { ensurePostgres } = (await import(script.href)) as {
    ensurePostgres(root: string): Promise<{
      readonly INTERLOCK_POSTGRES: string;
      readonly INTERLOCK_INITDB: string;
    }>;
  };
  const found = await ensurePostgres(root);
  return { postgres: found.INTERLOCK_POSTGRES, initdb: found.INTERLOCK_INITDB };
}
