// The settings of the bus: what goes together, what is never shown, and what does not belong together.
import { describe, expect, test } from "vitest";
import { settings } from "../../src/config.ts";
import { InterlockError } from "../../src/errors.ts";
import { loadConfig } from "../../src/load-config.ts";
import type { Setting } from "../../src/settings/kinds.ts";

function problemsOf(env: Record<string, string>): string {
  try {
    loadConfig({ env });
    return "";
  } catch (error) {
    if (error instanceof InterlockError) return error.detail;
    throw error;
  }
}

test("by default the bus needs no server", () => {
  expect(loadConfig().config).toMatchObject({
    "bus.kind": "in-process",
    "bus.signingKeys": "",
    "bus.replicas": 1,
  });
});

test("everything about NATS can be set", () => {
  const env = {
    INTERLOCK_BUS: "nats",
    INTERLOCK_NATS_URLS: "tls://a.example:4222,tls://b.example:4222",
    INTERLOCK_NATS_USER: "control-plane",
    INTERLOCK_NATS_PASSWORD: "secret",
    INTERLOCK_NATS_TLS_CA_FILE: "ca.pem",
    INTERLOCK_NATS_TLS_CERT_FILE: "own.pem",
    INTERLOCK_NATS_TLS_KEY_FILE: "own.key",
    INTERLOCK_BUS_SIGNING_KEYS: "a key that is long enough,another that is long too".replaceAll(" ", "-"),
    INTERLOCK_BUS_REPLICAS: "3",
  };
  expect(problemsOf(env)).toBe("");
  expect(loadConfig({ env }).config["bus.replicas"]).toBe(3);
});

describe("is refused", () => {
  test.each([
    [{ INTERLOCK_NATS_URLS: "tls://a:4222,nats://b:4222" }, /nats:\/\/ and tls:\/\//],
    [{ INTERLOCK_NATS_URLS: "http://a:4222" }, /INTERLOCK_NATS_URLS/],
    [{ INTERLOCK_NATS_TLS_CA_FILE: "ca.pem" }, /bus\.tlsCaFile needs tls:\/\//],
    [{ INTERLOCK_NATS_URLS: "tls://a:4222", INTERLOCK_NATS_TLS_CERT_FILE: "own.pem" }, /are needed together/],
    [{ INTERLOCK_NATS_USER: "me" }, /bus\.natsUser needs bus\.natsPassword/],
    [{ INTERLOCK_BUS_SIGNING_KEYS: "short" }, /INTERLOCK_BUS_SIGNING_KEYS/],
    [{ INTERLOCK_BUS_SIGNING_KEYS: "long-enough-for-a-key,short" }, /INTERLOCK_BUS_SIGNING_KEYS/],
  ])("%o", (env, problem) => {
    expect(problemsOf(env as Record<string, string>)).toMatch(problem);
  });
});

test("keys and passwords are marked as secret and are not repeated in a message", () => {
  for (const name of ["bus.natsPassword", "bus.signingKeys"] as const)
    expect((settings[name] as Setting & { secret?: true }).secret).toBe(true);
  expect(problemsOf({ INTERLOCK_BUS_SIGNING_KEYS: "my-short-secret" })).not.toContain("my-short-secret");
});
