// A start while Redis or NATS is away: the process listens, says that it is not ready and why, and tries again until it can begin.
import type { Config } from "../config.ts";
import type { ControlApi } from "../control/create-api.ts";
import type { ProcessPorts } from "../control-plane.ts";
import { waitDelayMs } from "../domain/lock.ts";
import { InterlockError } from "../errors.ts";
import type { Gateway } from "../gateway/server.ts";

type Listening = { readonly gateway: Gateway; readonly url: string };

type Waiting = {
  readonly config: Config;
  readonly ports: ProcessPorts;
  /** Ends the wait; without it nothing is waited for. */
  readonly signal: AbortSignal | undefined;
  /** Answers with this until there is something to serve. */
  listen(api: ControlApi): Promise<Listening>;
};

type Opened<Value> = {
  readonly value: Value;
  /** Where it was listening meanwhile: clients that asked there will ask there again. */
  readonly port?: number;
};

/** Half a minute after an outage every process is back, and a server that comes up is not met by all of them at once. */
const betweenTries = { kind: "exponential", baseMs: 500, maxMs: 5_000 } as const;

/** What waiting cannot heal, such as a wrong password, is thrown at once; so is the last trouble when the signal is aborted. */
export async function openWhenPossible<Value>(
  waiting: Waiting,
  open: () => Promise<Value>,
): Promise<Opened<Value>> {
  const { config, ports } = waiting;
  const hasServers = config["store.kind"] === "redis" || config["bus.kind"] === "nats";
  // An embedded start takes no time, and is stopped in good order when it is done.
  const signal = hasServers ? waiting.signal : undefined;
  const { log, clock, random } = ports;
  let listening: Listening | undefined;
  let trouble: InterlockError | undefined;
  const api = apiWhileWaiting(() => trouble);
  try {
    for (let tries = 0; ; tries += 1) {
      const opened = await unlessStopped(open, signal);
      if (!(opened instanceof InterlockError))
        return listening === undefined
          ? { value: opened }
          : { value: opened, port: Number(new URL(listening.url).port) };
      if (signal === undefined || signal.aborted || !mayHeal(config, opened)) throw opened;
      const isNews = opened.detail !== trouble?.detail;
      trouble = opened;
      listening ??= await waiting.listen(api);
      if (isNews)
        log.warn("this process cannot start yet: it waits", { url: listening.url, cause: opened.detail });
      await clock.sleep(
        betweenTries.baseMs + waitDelayMs("jitter", betweenTries, tries, random.fraction()),
        signal,
      );
    }
  } finally {
    await listening?.gateway.close();
  }
}

/** Of a server that may come back. The embedded store has none: what is wrong with a file stays wrong. */
function mayHeal(config: Config, { code }: InterlockError): boolean {
  return code === "bus_unavailable" || (code === "store_unavailable" && config["store.kind"] === "redis");
}

/** An attempt may take as long as a server's silence; a process that is told to stop does not wait for that. */
async function unlessStopped<Value>(
  open: () => Promise<Value>,
  signal: AbortSignal | undefined,
): Promise<Value | InterlockError> {
  const attempt = open().catch((error: unknown) => {
    if (error instanceof InterlockError) return error;
    throw error;
  });
  if (signal === undefined) return attempt;
  const stopped = new Promise<InterlockError>((resolve) => {
    const stop = () => resolve(new InterlockError("draining", "told to stop before it had started"));
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
  return Promise.race([attempt, stopped]);
}

/** Nothing else is asked of it: a request that is not authenticated gets no further, and health checks ask whether it is ready. */
function apiWhileWaiting(trouble: () => InterlockError | undefined): ControlApi {
  const cause = () => trouble()?.detail ?? "";
  const api: Pick<ControlApi, "authenticate" | "ready"> = {
    authenticate: async () => ({ kind: "unavailable", cause: cause() }),
    ready: async () => ({
      kind: "store_unavailable",
      detail: `starting: ${whatIsWrong(trouble())}`,
      cause: cause(),
    }),
  };
  return api as ControlApi;
}

/** For everybody who may ask: the log alone names servers. */
function whatIsWrong(trouble: InterlockError | undefined): string {
  if (trouble?.code === "bus_unavailable") return "the bus cannot be reached";
  if (trouble?.detail.includes("NOREPLICAS")) return "the store has too few replicas";
  return "the store cannot be reached";
}
