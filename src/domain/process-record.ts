// What a process writes down of itself for the others on its store, and what is wrong with those that live now.

export type ProcessRecord = {
  /** As locks and logs name it. */
  readonly instance: string;
  readonly version: string;
  readonly roles: readonly string[];
  /** What must agree, by the names of settings. Secrets stand here by their ids: the one that is used, then those that only verify. */
  readonly settings: Readonly<Record<string, string>>;
};

export type ProcessFinding = {
  /** `fail`: to go on would break a promise, so that a process which finds it at its start does not start. */
  readonly level: "warn" | "fail";
  readonly message: string;
  readonly remedy: string;
};

/** Where two processes with different values would break promises; other settings only make them behave differently. */
const failing: ReadonlySet<string> = new Set(["bus.kind", "audit.secret"]);
const secrets: ReadonlySet<string> = new Set(["audit.secret", "bus.signingKeys"]);

/** What `own` finds when it compares itself with another one. A setting that one of them does not know is left out. */
export function disagreements(own: ProcessRecord, other: ProcessRecord): readonly ProcessFinding[] {
  return Object.entries(own.settings).flatMap(([name, value]) => {
    const theirs = other.settings[name];
    if (theirs === undefined || theirs === value) return [];
    return secrets.has(name)
      ? secretFindings(name, { value, theirs, other })
      : [difference(name, { value, theirs, other })];
  });
}

type Compared = { readonly value: string; readonly theirs: string; readonly other: ProcessRecord };

function difference(name: string, { value, theirs, other }: Compared): ProcessFinding {
  return {
    level: failing.has(name) ? "fail" : "warn",
    message: `${name} is ${value || "empty"}, and ${other.instance} on the same store has ${theirs || "empty"}`,
    remedy: `Give every process the same ${name}. One that was killed counts for half a minute more.`,
  };
}

/** Former secrets may follow the one in use: while both know what the other uses, nothing is taken for forged. */
function secretFindings(name: string, { value, theirs, other }: Compared): readonly ProcessFinding[] {
  const [ours, others] = [value.split(","), theirs.split(",")];
  if (others.includes(ours[0] ?? "") && ours.includes(others[0] ?? "")) return [];
  const hasCommon = ours.some((id) => others.includes(id));
  const message = hasCommon
    ? `${name}: this process and ${other.instance} do not both know the one that each uses`
    : `${name} is another one than that of ${other.instance} on the same store: each takes what the other made for forged`;
  const remedy = `Give every process the same ${name}. To replace it, name the new one second everywhere, and then first.`;
  return [{ level: !hasCommon && failing.has(name) ? "fail" : "warn", message, remedy }];
}

/** What the process that answers finds wrong with all that live, itself among them. */
export function examineProcesses(
  own: ProcessRecord,
  others: readonly ProcessRecord[],
): readonly ProcessFinding[] {
  const findings = others.flatMap((other) => disagreements(own, other));
  if (![own, ...others].some(({ roles }) => roles.includes("engine")))
    findings.push({
      level: "fail",
      message:
        "no process with the role engine is alive: delays, retries, time-outs and claims of dead workers wait",
      remedy:
        "Start one: interlock serve --roles engine. It finds everything that is overdue within a second.",
    });
  const isAlone = [own, ...others].every(({ settings }) => settings["bus.kind"] === "in-process");
  if (isAlone && others.length > 0)
    findings.push({
      level: "warn",
      message: `bus.kind is in-process, and ${others.length} other processes share this store: they learn of each other's jobs only by looking`,
      remedy: "Set bus.kind to nats in every process.",
    });
  return findings;
}
