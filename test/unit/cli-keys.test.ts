// Where the command line has its key from, who else can see it there, and that nothing it says ever holds one.
import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { makeKeyText } from "../../src/domain/api-key.ts";
import { writeKeys, writeOwnerNote } from "../../src/embedded/data-folder.ts";
import { typeCommand } from "../support/command-line.ts";

const secret = "0123456789abcdef".repeat(4);
const key = makeKeyText({ keyId: "acme.1", secret });

let folder: string;
let server: ReturnType<typeof createServer>;
let url: string;
let received: IncomingMessage | undefined;
let onRequest: (() => void) | undefined;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "interlock-keys-"));
  received = undefined;
  onRequest = undefined;
  server = createServer((request, reply) => {
    received = request;
    onRequest?.();
    reply.writeHead(200, { "content-type": "application/json" }).end(`{"items":[],"next_cursor":null}`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

function keyFile(text = `${key}\n`, mode = 0o600): string {
  writeFileSync(join(folder, "my.key"), text);
  chmodSync(join(folder, "my.key"), mode);
  return "my.key";
}

const type = (words: readonly string[], env: Record<string, string> = {}) =>
  typeCommand(folder, [...words, "--url", url], { env });

const sentKey = () =>
  received?.headers["x-api-key"] ?? received?.headers.authorization?.slice("Bearer ".length);

describe("the key", () => {
  test("comes from --key-file, which counts from where the user is, and nobody sees it", async () => {
    const said = await type(["runs", "--key-file", keyFile()]);
    expect([said.code, said.stderr, sentKey()]).toEqual([0, "", key]);
  });

  test("comes from the file that INTERLOCK_API_KEY_FILE names, and INTERLOCK_API_KEY goes before it", async () => {
    const named = { INTERLOCK_API_KEY_FILE: join(folder, keyFile()) };
    expect((await type(["runs"], named)).stderr).toBe("");
    expect(sentKey()).toBe(key);
    await type(["runs"], { ...named, INTERLOCK_API_KEY: "ilk_other" });
    expect(sentKey()).toBe("ilk_other");
    await type(["runs", "--key-file", keyFile()], { INTERLOCK_API_KEY: "ilk_other" });
    expect(sentKey()).toBe(key);
  });

  test("in a file is not in the list of processes while the command runs", async () => {
    const root = dirname(dirname(import.meta.dirname));
    const program = join(root, "src/cli/interlock.ts");
    const words = ["--import", "tsx", program, "runs", "--url", url, "--key-file", join(folder, keyFile())];
    const child = spawn(process.execPath, words, { cwd: root, stdio: "ignore" });
    const seen = await new Promise<string>((resolve, reject) => {
      onRequest = () => resolve(readFileSync(`/proc/${child.pid}/cmdline`, "utf8"));
      child.once("exit", (code) => reject(new Error(`it ended with ${code} before it asked`)));
    });
    expect(seen).toContain("--key-file");
    expect(seen).not.toContain(secret);
    expect(sentKey()).toBe(key);
    await new Promise((resolve) => (child.exitCode === null ? child.once("exit", resolve) : resolve(0)));
  });

  test("on the command line still works, with a note for people that does not hold it", async () => {
    const said = await type(["runs", "--api-key", key]);
    expect([said.code, sentKey()]).toEqual([0, key]);
    expect(said.stderr).toMatch(
      /^Note: Everybody on this machine can see a key on the command line\..*--key-file/,
    );
    expect(said.stderr).not.toContain(secret);
    const json = await type(["runs", "--api-key", key, "--json"]);
    expect([json.code, json.stderr]).toEqual([0, ""]);
    expect((await type(["help"])).stdout).not.toContain("--api-key");
    const both = await type(["runs", "--api-key", key, "--key-file", keyFile()]);
    expect([both.code, both.stderr]).toEqual([2, expect.stringContaining("give --key-file alone")]);
  });
});

describe("others who may read it", () => {
  test.each([0o644, 0o640, 0o604])(
    "are told of, with the command that keeps them out (mode %o)",
    async (mode) => {
      const said = await type(["runs", "--key-file", keyFile(key, mode)]);
      expect([said.code, sentKey()]).toEqual([0, key]);
      expect(said.stderr).toMatch(
        /^Note: Others may read the key in .*my\.key\. Keep them out: chmod 600 .*my\.key\n$/,
      );
      expect((await type(["runs", "--key-file", "my.key", "--json"])).stderr).toBe("");
    },
  );

  test("are told of for the keys of the data folder, too", async () => {
    const data = join(folder, ".interlock");
    mkdirSync(data);
    writeKeys(data, { platform: key, admin: key, worker: key });
    writeOwnerNote(data, { pid: process.pid, url });
    expect((await typeCommand(folder, ["runs"])).stderr).toBe("");
    chmodSync(join(data, "keys.json"), 0o644);
    expect((await typeCommand(folder, ["runs"])).stderr).toMatch(/chmod 600 .*keys\.json/);
  });
});

describe("what goes wrong", () => {
  const without = async (words: readonly string[], env: Record<string, string> = {}) => {
    for (const format of [[], ["--json"]]) {
      const said = await type([...words, ...format], env);
      expect(said.code).toBe(2);
      expect(said.stdout + said.stderr).not.toContain(secret.slice(0, 16));
    }
    expect(received).toBeUndefined();
    return (await type(words, env)).stderr;
  };

  test.each([
    ["two keys", `${key}\n${key}\n`],
    ["a key in JSON", JSON.stringify({ key, note: "of the first start" })],
    ["nothing", ""],
    ["bytes that no key has", `${key}\u0000`],
    ["a whole book", key.repeat(100)],
  ])("a file with %s is refused without being shown", async (_name, text) => {
    expect(await without(["runs", "--key-file", keyFile(text)])).toMatch(
      /must hold one API key and nothing else/,
    );
  });

  test("a file that is not there is named", async () => {
    expect(await without(["runs", "--key-file", "missing.key"])).toMatch(
      /cannot read .*missing\.key \(ENOENT\)/,
    );
  });

  test("a key with a line break in the environment is not sent, and not shown", async () => {
    const env = { INTERLOCK_API_KEY: `${key}\r\nX: ${key}` };
    expect(await without(["runs"], env)).toMatch(/INTERLOCK_API_KEY must hold one API key/);
  });

  test("a misspelt option with a key is not repeated", async () => {
    expect(await without(["runs", `--api-kye=${key}`])).toMatch(/unknown option/);
  });
});
