// What doctor finds about the gateway's own certificate: whether it fits its key, and when it ends.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Config } from "../config.ts";
import { certificateWarningMs, judgeCertificate } from "../domain/certificate.ts";
import { formatTime } from "../domain/engine/rfc3339.ts";
import type { Finding } from "../ports/finding.ts";
import type { Terminal } from "./terminal.ts";

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
