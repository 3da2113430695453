// What every command gets: its output, its client, and the ending it may ask for.
import type { Command } from "commander";
import { type Client, createClient } from "../sdk/client.ts";
import type { Ending } from "./exit-codes.ts";
import {
  type FoundServer,
  findServer,
  type GlobalOptions,
  NoKeyError,
  NoServerError,
  type Scope,
} from "./find-server.ts";
import { createOutput, type Output } from "./output.ts";
import type { Terminal } from "./terminal.ts";

export type Context = {
  readonly terminal: Terminal;
  readonly output: Output;
  readonly options: GlobalOptions;
  /** A client with the key for this scope. */
  client(scope?: Scope): Client;
  found(scope?: Scope): FoundServer;
  /** Another ending than `ok`. */
  end(ending: Ending): void;
};

/** Of one call of the program. */
export type Session = {
  readonly terminal: Terminal;
  ending: Ending;
  /** The server that was asked last, for the words of a failure. */
  server?: FoundServer;
  format: "json" | "text";
};

export type Cli = {
  readonly program: Command;
  /** Gives a command's work its context: `.action(does(async (context, id: string, options) => ...))`. */
  does<Received extends unknown[]>(
    work: (context: Context, ...received: Received) => Promise<void>,
  ): (...received: unknown[]) => Promise<void>;
};

/** A person waits: a server that restarts or is overloaded is asked again, but not for long. One that is not there costs 1 s. */
const patience = { budgetMs: 8_000, attemptsMax: 4 };

export function createCli(program: Command, session: Session): Cli {
  return {
    program,
    does<Received extends unknown[]>(work: (context: Context, ...received: Received) => Promise<void>) {
      return async (...received: unknown[]) => {
        const command = received.at(-1) as Command;
        const context = createContext(session, command.optsWithGlobals<GlobalOptions>());
        // Arguments, then options, as the command declares them.
        await work(context, ...(received.slice(0, -1) as Received));
      };
    },
  };
}

function createContext(session: Session, options: GlobalOptions): Context {
  const { terminal } = session;
  session.format = options.json === true ? "json" : "text";
  const found = (scope: Scope = "tenant") => {
    const before = session.server;
    session.server = findServer(terminal, options, scope);
    const { keyWarning } = session.server;
    const isNew = keyWarning !== before?.keyWarning;
    if (keyWarning !== undefined && isNew && session.format === "text") {
      terminal.stderr.write(`Note: ${keyWarning}\n`);
    }
    return session.server;
  };
  return {
    terminal,
    options,
    output: createOutput(terminal, session.format),
    found,
    client(scope) {
      const { url, apiKey, isGuess } = found(scope);
      if (apiKey === undefined) throw isGuess ? new NoServerError() : new NoKeyError();
      return createClient({ url, apiKey, retry: patience });
    },
    end(ending) {
      session.ending = ending;
    },
  };
}
