// What doctor finds on this machine: the embedded server's data folder (rights, space, owner) and the gateway's certificate.
import { accessSync, constants, readFileSync, statfsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import type { Config } from "../config.ts";
import { certificateWarningMs, judgeCertificate } from "../domain/certificate.ts";
import { formatTime } from "../domain/engine/rfc3339.ts";
import { keyPaths, readOwnerNote } from "../embedded/data-folder.ts";
import type { Finding } from "../ports/ports.ts";
import type { Terminal } from "./terminal.ts";

const megabyte = 1_048_576;
/** Below the first nothing can be relied on; below the second somebody should look. */
const spaceNeededBytes = 100 * megabyte;
const spaceWantedBytes = 1_024 * megabyte;

export function dataFindings(terminal: Terminal, config: Config): readonly Finding[] {
  if (config["store.kind"] !== "sqlite") return [];
  const directory = resolve(terminal.folder, config["store.dataDirectory"]);
  const subject = `data folder ${directory}`;
  const stat = statSync(directory, { throwIfNoEntry: false });
  if (stat === undefined)
    return [{ subject, level: "ok", message: "not there yet: the first start makes it" }];
  if (!stat.isDirectory())
    return [
      {
        subject,
        level: "fail",
        message: "is not a folder",
        remedy: "Choose another one: --data, or the setting store.dataDirectory.",
      },
    ];
  return [
    rightsFinding(subject, directory),
    ...secrecyFindings(directory),
    spaceFinding(subject, directory),
    ownerFinding(subject, directory),
  ];
}

function rightsFinding(subject: string, directory: string): Finding {
  try {
    accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK);
    return { subject, level: "ok", message: "can be read and written" };
  } catch {
    return {
      subject,
      level: "fail",
      message: "this user may not read and write it",
      remedy: `Give it to the user of the server: chown -R "$USER" ${directory}`,
    };
  }
}

/** The files that hold keys: anyone who can read them owns the platform. */
function secrecyFindings(directory: string): readonly Finding[] {
  const { keysFile, headersFile } = keyPaths(directory);
  return [keysFile, headersFile].flatMap((path): readonly Finding[] => {
    const mode = statSync(path, { throwIfNoEntry: false })?.mode;
    if (mode === undefined) return [];
    const isPrivate = (mode & 0o077) === 0;
    return [
      isPrivate
        ? { subject: path, level: "ok", message: "can be read by its owner only" }
        : {
            subject: path,
            level: "fail",
            message: `others may read it (mode ${(mode & 0o777).toString(8)})`,
            remedy: `chmod 600 ${path}, and revoke the keys if somebody may have read them`,
          },
    ];
  });
}

function spaceFinding(subject: string, directory: string): Finding {
  const { bavail, bsize } = statfsSync(directory);
  const freeBytes = bavail * bsize;
  const message = `${Math.round(freeBytes / megabyte).toLocaleString("en")} MiB free`;
  if (freeBytes >= spaceWantedBytes) return { subject, level: "ok", message };
  return {
    subject,
    level: freeBytes < spaceNeededBytes ? "fail" : "warn",
    message,
    remedy: "Free some space: a full disk ends the server.",
  };
}

function ownerFinding(subject: string, directory: string): Finding {
  const owner = readOwnerNote(directory);
  return {
    subject,
    level: "ok",
    message:
      owner === undefined
        ? "no server has it open"
        : `process ${owner.pid} has it open and serves ${owner.url}`,
  };
}

export function certificateFindings(terminal: Terminal, config: Config): readonly Finding[] {
  const certFile = config["gateway.tls.certificateFile"];
  if (certFile === "") return [];
  const subject = `certificate ${certFile}`;
  const texts = [certFile, config["gateway.tls.keyFile"]].map((path) =>
    textOf(resolve(terminal.folder, path)),
  );
  const [certificate, key] = texts;
  if (certificate === undefined || key === undefined) {
    const remedy = "Run this as the user of the server, or correct the paths.";
    return [{ subject, level: "fail", message: "it or its key cannot be read", remedy }];
  }
  const judged = judgeCertificate(certificate, key);
  if (judged.kind === "invalid") return [{ subject, level: "fail", message: judged.why, remedy: renewal }];
  const leftMs = judged.endsAtMs - terminal.nowMs();
  const ends = formatTime(judged.endsAtMs);
  if (leftMs <= 0) return [{ subject, level: "fail", message: `ended at ${ends}`, remedy: renewal }];
  if (leftMs < certificateWarningMs) {
    return [{ subject, level: "warn", message: `ends within 14 days, at ${ends}`, remedy: renewal }];
  }
  return [{ subject, level: "ok", message: `fits its key and ends at ${ends}` }];
}

const renewal = "Put a new pair in the place of both files; a running server takes it over by itself.";

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
