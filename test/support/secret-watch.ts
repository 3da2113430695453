// Knows the secrets that tests have been given and all that servers have said since: none of the first may stand in the second.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

/** Whether what is said may show a new API key: once, to the person who started the server. */
export type Shows = "new keys once" | "nothing";

export type SecretWatch = {
  /** A secret by itself: a password, a token, a signing key. */
  note(what: string, secret: string): void;
  /** Every secret in an answer, a request or a file of keys: API keys, claim tokens, lock tokens. */
  noteAllIn(text: string): void;
  /** What a server says: its log, its metrics, its standard output. Read whenever leaks are looked for. */
  watchOutput(name: string, text: () => string, shows: Shows): void;
  /** Looks through the files of a folder now. The store has tokens, which are of no use elsewhere; of keys only hashes may be there. */
  inspectFolder(folder: string): void;
  /** In words, without the secrets. */
  leaks(): readonly string[];
};

/** The one of the tests of a file. */
export const secretWatch = createSecretWatch();

type Output = { readonly name: string; readonly text: () => string; readonly shows: Shows };

/** Shorter ones would be found in words by chance. */
const secretLengthMin = 12;
/** Files that hold keys on purpose, for their owner only. */
const keyFiles = ["keys.json", "curl-headers"];

export function createSecretWatch(): SecretWatch {
  const secrets = new Map<string, string>();
  const outputs: Output[] = [];
  const inFiles: string[] = [];
  let checked = "";
  let known: readonly string[] = [];
  const note = (what: string, secret: string) => {
    if (secret.length >= secretLengthMin) secrets.set(secret, what);
  };
  const noteAllIn = (text: string) => {
    for (const [, secret = ""] of text.matchAll(keyPattern)) note("an API key", secret);
    for (const [, name = "", token = ""] of text.matchAll(tokenPattern)) note(`a ${name}`, token);
  };
  return {
    note,
    noteAllIn,
    watchOutput: (name, text, shows) => void outputs.push({ name, text, shows }),
    inspectFolder(folder) {
      for (const name of keyFiles) noteAllIn(bytesOf(join(folder, name)).toString());
      const keys = [...secrets].filter(([, what]) => what === "an API key").map(([secret]) => secret);
      for (const path of filesIn(folder)) {
        const bytes = bytesOf(path);
        for (const key of keys) if (bytes.includes(key)) inFiles.push(`${path} holds an API key`);
      }
    },
    leaks() {
      const texts = outputs.map(({ text }) => text());
      for (const text of texts) noteAllKeys(text, note);
      // Most tests of a file add nothing to what was looked through after the one before.
      const state = `${secrets.size} ${inFiles.length} ${texts.map(({ length }) => length).join()}`;
      if (state === checked) return known;
      checked = state;
      known = [
        ...inFiles,
        ...outputs.flatMap((output, index) => leaksIn(output, texts[index] ?? "", secrets)),
      ];
      return known;
    },
  };
}

/** The part of a key that is secret; the rest names it. */
const keyPattern = /ilk_[A-Za-z0-9._-]{3,96}?_([0-9a-f]{48,64})(?:_[0-9a-f]{8})?/g;
const tokenPattern = /\\?"(claim_token|token)\\?":\s*\\?"([A-Za-z0-9_-]{16,128})\\?"/g;

/** A server that shows a key is thereby known to have one. */
function noteAllKeys(text: string, note: SecretWatch["note"]): void {
  for (const [, secret = ""] of text.matchAll(keyPattern)) note("an API key", secret);
}

function leaksIn({ name, shows }: Output, text: string, secrets: ReadonlyMap<string, string>): string[] {
  const found: string[] = [];
  for (const [secret, what] of secrets) {
    const first = text.indexOf(secret);
    if (first === -1) continue;
    const isShownOnce =
      shows === "new keys once" && what === "an API key" && !text.includes(secret, first + secret.length);
    if (isShownOnce) continue;
    const line = text.slice(text.lastIndexOf("\n", first) + 1, first + 400).split("\n", 1)[0] ?? "";
    found.push(`${name} shows ${what}: ${line.replaceAll(secret, "(the secret)").slice(0, 300)}`);
  }
  return found;
}

/** Nothing when it has just been removed. */
function bytesOf(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch {
    return Buffer.alloc(0);
  }
}

function filesIn(folder: string): string[] {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    // It was never made, or is gone already.
    return [];
  }
  return names
    .filter((name) => !keyFiles.includes(name))
    .map((name) => join(folder, name))
    .flatMap((path) => {
      const status = statSync(path, { throwIfNoEntry: false });
      if (status?.isDirectory() === true) return filesIn(path);
      return status?.isFile() === true ? [path] : [];
    });
}
