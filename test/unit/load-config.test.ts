// Loading the configuration: every bound of the table, all problems at once, which source wins, and what is checked together.
import { describe, expect, test } from "vitest";
import { bounds, type Config, type SettingName, settings } from "../../src/config.ts";
import { InterlockError } from "../../src/errors.ts";
import { type ConfigSources, loadConfig } from "../../src/load-config.ts";
import type { Setting } from "../../src/settings/kinds.ts";
import { choiceSettings, numberSettings, textSettings } from "../support/settings-table.ts";

const rows = Object.entries<Setting>(settings).map(([name, row]) => ({ name: name as SettingName, row }));
const numbers = rows.flatMap(({ name, row }) => (row.kind === "number" ? [{ name, row }] : []));
const choices = rows.flatMap(({ name, row }) => (row.kind === "choice" ? [{ name, row }] : []));
const texts = rows.flatMap(({ name, row }) => (row.kind === "text" ? [{ name, row }] : []));

/** The lines of the error, or none when the configuration is valid. */
function problemsOf(sources: ConfigSources): string[] {
  try {
    loadConfig(sources);
    return [];
  } catch (error) {
    if (!(error instanceof InterlockError) || error.code !== "config_invalid") throw error;
    return error.detail.split("; ");
  }
}

const override = (name: SettingName, value: unknown): ConfigSources => ({
  overrides: { [name]: value } as Partial<Config>,
});
/** Whether a value by itself is accepted: what is checked together with others has other words. */
const isAccepted = (name: SettingName, value: unknown) =>
  !problemsOf(override(name, value)).some((problem) => problem.startsWith(`${name} is `));

describe("without any source", () => {
  test("every setting has its default, and the defaults are valid", () => {
    const { config, origins } = loadConfig();
    for (const { name, row } of rows) {
      expect(config[name]).toBe(row.default);
      expect(origins[name]).toBe("default");
    }
    expect(Object.keys(config).sort()).toEqual(Object.keys(settings).sort());
  });

  test("needs no services: the embedded store", () => {
    expect(loadConfig().config["store.kind"]).toBe("sqlite");
  });

  test("the configuration cannot be changed afterwards", () => {
    const { config } = loadConfig();
    expect(Object.isFrozen(config)).toBe(true);
  });
});

describe("the table of the tests", () => {
  test("has every setting, by its kind", () => {
    const names = (some: ReadonlyArray<{ readonly name: string }>) => some.map(({ name }) => name).sort();
    expect(names(numbers)).toEqual(Object.keys(numberSettings).sort());
    expect(names(choices)).toEqual(Object.keys(choiceSettings).sort());
    expect(names(texts)).toEqual(Object.keys(textSettings).sort());
  });

  test.each(numbers)("says how large $name may be, and what it is without being set", ({ name, row }) => {
    const { env, min, max, unit, default: byDefault } = row;
    expect(`${env}: ${min}, ${byDefault}, ${max} ${unit}`).toBe(numberSettings[name]);
  });

  test.each(choices)("says what $name may be, the default first", ({ name, row }) => {
    expect(row.default).toBe(row.choices[0]);
    expect(`${row.env}: ${row.choices.join(", ")}`).toBe(choiceSettings[name]);
  });

  test.each(texts)("says what $name may look like, and whether it is a secret", ({ name, row }) => {
    const known = textSettings[name];
    expect(row.env).toBe(known?.env);
    expect(row.default).toBe(known?.default ?? "");
    expect(row.secret).toBe(known?.secret);
    expect(row.optional === true).toBe(known?.default === undefined);
    for (const value of known?.good ?? []) expect([value, isAccepted(name, value)]).toEqual([value, true]);
    for (const value of known?.bad ?? []) expect([value, isAccepted(name, value)]).toEqual([value, false]);
  });
});

describe("bounds", () => {
  const step = (row: { unit: string }) => (row.unit === "fraction" ? 0.001 : 1);

  test.each(numbers)("$name accepts both of its bounds", ({ name, row }) => {
    expect(isAccepted(name, row.min)).toBe(true);
    expect(isAccepted(name, row.max)).toBe(true);
  });

  test.each(numbers)("$name refuses what lies just outside, and names the bounds", ({ name, row }) => {
    for (const value of [row.min - step(row), row.max + step(row)]) {
      expect(problemsOf(override(name, value))).toContain(`${name} is ${value}: must be ${bounds(row)}`);
    }
  });

  test.each(numbers)("$name is a number: other values are refused", ({ name }) => {
    for (const value of ["", " ", "many", true, [], {}, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(isAccepted(name, value)).toBe(false);
    }
  });

  test("everything but fractions is counted in whole numbers", () => {
    const whole = numbers.filter(({ row }) => row.unit !== "fraction");
    const acceptFractions = whole.filter(({ name, row }) => isAccepted(name, row.min + 0.5));
    expect(acceptFractions.map(({ name }) => name)).toEqual([]);
  });

  test.each(choices)("$name accepts each of its choices and nothing else", ({ name, row }) => {
    for (const choice of row.choices) expect(isAccepted(name, choice)).toBe(true);
    expect(problemsOf(override(name, "another"))).toContain(
      `${name} is "another": must be ${row.choices.join(" or ")}`,
    );
    expect(isAccepted(name, 1)).toBe(false);
  });

  test.each(texts)("$name refuses what is not text like its pattern", ({ name, row }) => {
    expect(isAccepted(name, "")).toBe(row.optional === true);
    expect(isAccepted(name, 7)).toBe(false);
  });

  test("several Redis addresses are separated by commas", () => {
    const name = "store.redisUrls";
    for (const value of ["redis://a:1", "rediss://a:1,redis://b:2"])
      expect(isAccepted(name, value)).toBe(true);
    for (const value of ["a:1", "http://a", "redis://a:1,", "redis://a, redis://b"]) {
      expect(isAccepted(name, value)).toBe(false);
    }
  });
});

describe("the Redis connection", () => {
  test("certificates need encrypted addresses, and a certificate its key", () => {
    const [tls, plain] = ["rediss://a:1,rediss://b:1", "redis://a:1"];
    const given = (values: Partial<Config>) => problemsOf({ overrides: values });
    expect(given({ "store.redisUrls": tls, "store.tlsCaFile": "ca.pem" })).toEqual([]);
    expect(given({ "store.redisUrls": plain, "store.tlsCaFile": "ca.pem" })).toEqual([
      "store.tlsCaFile needs rediss:// in store.redisUrls",
    ]);
    expect(given({ "store.redisUrls": tls, "store.tlsCertFile": "own.pem" })).toEqual([
      "store.tlsCertFile and store.tlsKeyFile are needed together",
    ]);
    expect(given({ "store.redisUrls": `${tls},${plain}` })).toEqual([
      "store.redisUrls holds redis:// and rediss:// addresses: all must be the same",
    ]);
  });

  test("a user needs a password, and a password that is refused is not repeated", () => {
    expect(problemsOf(override("store.redisUser", "interlock"))).toEqual([
      "store.redisUser needs store.redisPassword",
    ]);
    const [problem, ...others] = problemsOf(override("store.redisPassword", "two\nlines"));
    expect(problem).toMatch(/^store\.redisPassword is \(not shown\): must be/);
    expect(others).toEqual([]);
    expect(settings["store.redisPassword"].secret).toBe(true);
  });
});

describe("sources", () => {
  const name = "locks.run.pollMs";
  const env = { INTERLOCK_LOCK_RUN_POLL_MS: "30" };
  const file = { [name]: 20 };

  test("the file beats the default, the environment the file, and overrides the environment", () => {
    const sources = { file, env, overrides: { [name]: 40 } };
    const loaded = (given: ConfigSources) => {
      const { config, origins } = loadConfig(given);
      return [config[name], origins[name]];
    };
    expect(loaded({})).toEqual([100, "default"]);
    expect(loaded({ file })).toEqual([20, "file"]);
    expect(loaded({ file, env })).toEqual([30, "environment"]);
    expect(loaded(sources)).toEqual([40, "override"]);
  });

  test("a source that says nothing leaves the one below", () => {
    const { config } = loadConfig({ file, env: {}, overrides: {} });
    expect(config[name]).toBe(20);
  });

  test.each(rows)("$name can be set in the environment by its own name", ({ name: setting, row }) => {
    const value = String(row.default);
    const { config, origins } = loadConfig({ env: { [`INTERLOCK_${row.env}`]: value } });
    expect(config[setting]).toBe(row.default);
    expect(origins[setting]).toBe("environment");
  });

  test("a problem names the place where the value came from", () => {
    const [fromFile] = problemsOf({ file: { [name]: 0 } });
    const [fromEnvironment] = problemsOf({ env: { INTERLOCK_LOCK_RUN_POLL_MS: "0" } });
    const must = `must be ${bounds(settings[name])}`;
    expect(fromFile).toBe(`locks.run.pollMs in the file is 0: ${must}`);
    expect(fromEnvironment).toBe(`INTERLOCK_LOCK_RUN_POLL_MS is "0": ${must}`);
    expect(must).toContain("1 to 5000 ms");
  });
});

describe("problems", () => {
  test("are all reported at once", () => {
    const problems = problemsOf({
      file: { "locks.run.pollMs": -1, "no.such": 1 },
      env: { INTERLOCK_STORE: "oracle", INTERLOCK_TYPO: "1" },
      overrides: { "locks.job.pollMs": 0 },
    });
    expect(problems.map((problem) => problem.split(" ")[0]).sort()).toEqual([
      "INTERLOCK_STORE",
      "INTERLOCK_TYPO",
      "locks.job.pollMs",
      "locks.run.pollMs",
      "no.such",
    ]);
  });

  test("a misspelt name is a problem in every source", () => {
    expect(problemsOf({ file: { "locks.run.pollms": 1 } })).toEqual([
      "locks.run.pollms is not a setting: did you mean locks.run.pollMs?",
    ]);
    expect(problemsOf({ env: { INTERLOCK_LOCK_RUN_POL_MS: "1" } })).toEqual([
      "INTERLOCK_LOCK_RUN_POL_MS is not a setting: did you mean INTERLOCK_LOCK_RUN_POLL_MS?",
    ]);
    const overrides = { misspelt: 1 } as unknown as Partial<Config>;
    expect(problemsOf({ overrides })).toEqual(["misspelt is not a setting"]);
  });

  test("a name that every object has is not a setting either", () => {
    expect(problemsOf({ file: { constructor: 1 } })).toEqual(["constructor is not a setting"]);
    expect(problemsOf({ file: { toString: 1 } })).toEqual(["toString is not a setting"]);
  });

  test("names of other programs and of the tooling are left alone", () => {
    const env = { PATH: "/bin", REDIS_URL: "x", INTERLOCK_REDIS_SERVER: "1", INTERLOCK_NATS_SERVER: "1" };
    expect(problemsOf({ env: { ...env, INTERLOCK_PROMTOOL: "1" } })).toEqual([]);
  });

  test.each([
    ["with its scheme misspelt", "http://user:secret@db:6379"],
    ["with a space", "redis://user:secret@db:6379 "],
    ["without a scheme", "user:secret@db:6379"],
    ["only a password and a host", ":secret@db"],
  ])("the password of an address is not repeated: %s", (_title, address) => {
    for (const sources of [
      { env: { INTERLOCK_REDIS_URLS: address } },
      { file: { "store.redisUrls": address } },
      { file: { "store.redisUrls": [address] } },
    ]) {
      const [problem] = problemsOf(sources);
      expect(problem).toContain("must be");
      expect(problem).not.toContain("secret");
    }
  });
});

describe("what is checked together", () => {
  test("the seeds' renewal numbers are refused with the numbers named", () => {
    const [problem, ...others] = problemsOf({ overrides: { "locks.job.renewEveryMs": 20_000 } });
    expect(others).toEqual([]);
    expect(problem).toBe(
      "locks.job cannot fence before its ttl: 3 x renewEveryMs 20000 + callTimeoutMs 2000 = 62000 ms, " +
        "which is more than ttlMs 60000 less a tenth (54000 ms)",
    );
  });

  test("the run lock is checked for three failures", () => {
    const [problem] = problemsOf({ overrides: { "locks.run.renewEveryMs": 10_000 } });
    expect(problem).toContain("locks.run cannot fence before its ttl: 3 x renewEveryMs 10000");
    expect(problem).toContain("32000 ms");
  });

  test("more failures are allowed only with shorter intervals", () => {
    const failures = { "locks.job.failuresMax": 5 };
    expect(problemsOf({ overrides: failures })).toHaveLength(1);
    expect(problemsOf({ overrides: { ...failures, "locks.job.renewEveryMs": 10_000 } })).toEqual([]);
  });

  test.each(["admission", "approval"] as const)(
    "a wait for the %s lock must end before its lease would",
    (lock) => {
      const at = (waitMs: number) => problemsOf({ overrides: { [`locks.${lock}.waitMs`]: waitMs } });
      expect(at(9_000)).toHaveLength(1);
      expect(at(9_000)[0]).toContain(`locks.${lock}: waitMs 9000 must be below ttlMs 10000`);
      expect(at(8_999)).toEqual([]);
    },
  );

  test("the last ceiling of a poll must not be below the first", () => {
    const at = (pollMaxMs: number) => problemsOf({ overrides: { "locks.admission.pollMaxMs": pollMaxMs } });
    expect(at(9)).toEqual(["locks.admission: pollMaxMs 9 must not be below pollMs 10"]);
    expect(at(10)).toEqual([]);
  });

  test("public locks are retried within their ceiling, and a ticket outlives a lost try", () => {
    const retryMax = (ms: number) => problemsOf({ overrides: { "locks.public.retryMaxMs": ms } });
    expect(retryMax(24)).toEqual(["locks.public.retryMaxMs must not be below locks.public.retryMs"]);
    expect(retryMax(25)).toEqual([]);
    const ticket = (ms: number) => problemsOf({ overrides: { "locks.public.ticketMs": ms } });
    expect(ticket(499)).toEqual([
      "locks.public.ticketMs must be at least twice locks.public.askEveryMs: one lost try would cost the place",
    ]);
    expect(ticket(500)).toEqual([]);
  });

  test("the time to resolve an unknown outcome must hold at least one call", () => {
    const at = (resolveMs: number) => problemsOf({ overrides: { "admission.resolveMs": resolveMs } });
    expect(at(999)).toEqual(["admission.resolveMs must not be below admission.callTimeoutMs"]);
    expect(at(1_000)).toEqual([]);
  });

  const given = (overrides: Partial<Config>) => problemsOf({ overrides }).length;

  test.each<[string, number, Partial<Config>]>([
    [
      "a run lock that fences at its margin",
      0,
      { "locks.run.renewEveryMs": 8_000, "locks.run.callTimeoutMs": 3_000 },
    ],
    ["and a millisecond later", 1, { "locks.run.renewEveryMs": 8_000, "locks.run.callTimeoutMs": 3_001 }],
    [
      "a job lock that fences at its margin",
      0,
      { "locks.job.renewEveryMs": 17_000, "locks.job.callTimeoutMs": 3_000 },
    ],
    ["and a millisecond later", 1, { "locks.job.renewEveryMs": 17_000, "locks.job.callTimeoutMs": 3_001 }],
    ["events that are looked for at one pace", 0, { "events.pollMs": 700, "events.pollMaxMs": 700 }],
    ["or at a slower one first", 1, { "events.pollMs": 700, "events.pollMaxMs": 699 }],
    ["NATS with one scheme", 0, { "bus.natsUrls": "tls://a,tls://b", "bus.tlsCaFile": "ca.pem" }],
    ["with two", 1, { "bus.natsUrls": "tls://a,nats://b" }],
    ["with a CA and no encryption", 1, { "bus.tlsCaFile": "ca.pem" }],
    ["with a certificate and no key", 1, { "bus.natsUrls": "tls://a", "bus.tlsCertFile": "c.pem" }],
    ["with a key and no certificate", 1, { "bus.natsUrls": "tls://a", "bus.tlsKeyFile": "k.pem" }],
    ["with both", 0, { "bus.natsUrls": "tls://a", "bus.tlsCertFile": "c.pem", "bus.tlsKeyFile": "k.pem" }],
    ["with a user and no password", 1, { "bus.natsUser": "u" }],
    ["with a password alone", 0, { "bus.natsPassword": "p" }],
    [
      "Redis with a key and no certificate",
      1,
      { "store.redisUrls": "rediss://a", "store.tlsKeyFile": "k.pem" },
    ],
    ["Redis with a user and a password", 0, { "store.redisUser": "u", "store.redisPassword": "p" }],
    ["a gateway with a certificate and no key", 1, { "gateway.tls.certificateFile": "c.pem" }],
    ["with a key and no certificate", 1, { "gateway.tls.keyFile": "k.pem" }],
    ["with both", 0, { "gateway.tls.certificateFile": "c.pem", "gateway.tls.keyFile": "k.pem" }],
    ["behind a proxy that is named", 0, { "gateway.trustedProxies": "loopback, 10.0.0.0/8" }],
    ["behind a range that is none", 1, { "gateway.trustedProxies": "10.0.0.0/33" }],
    ["a check over https", 0, { "dispatch.checkUrl": "https://a.example/x" }],
    ["a check on this machine", 0, { "dispatch.checkUrl": "http://127.0.0.1:9/x" }],
    ["a check over the network, unencrypted", 1, { "dispatch.checkUrl": "http://10.0.0.1/x" }],
    [
      "unless that is said to be wanted",
      0,
      { "dispatch.checkUrl": "http://10.0.0.1/x", "dispatch.allowInsecure": "yes" },
    ],
  ])("%s: %i problems", (_, problems, overrides) => {
    expect(given(overrides)).toBe(problems);
  });
});
