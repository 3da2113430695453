// TLS at the gateway: what is negotiated, and the certificate, which is read again whenever its files change.
import { constants } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { SecureContextOptions } from "node:tls";
import type { Config } from "../config.ts";
import { certificateWarningMs, judgeCertificate } from "../domain/certificate.ts";
import { formatTime } from "../domain/engine/rfc3339.ts";
import { InterlockError } from "../errors.ts";
import type { Ports } from "../ports/ports.ts";

export type Tls = {
  readonly options: SecureContextOptions;
  /** Reads the files again every second, and hands a new pair over; the answer stops that. */
  watch(use: (options: SecureContextOptions) => void): () => void;
};

type Pair = { readonly cert: string; readonly key: string };

const readEveryMs = 1_000;

/** Forward secrecy and authenticated encryption alone. TLS 1.3 comes first; nothing is negotiated twice on one connection. */
const modern: SecureContextOptions = {
  minVersion: "TLSv1.2",
  ciphers: [
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
  ].join(":"),
  honorCipherOrder: true,
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
};

/** Undefined where the gateway speaks plain HTTP. Throws when the files cannot be used. */
export function openTls(ports: Pick<Ports, "clock" | "log" | "metrics">, config: Config): Tls | undefined {
  const certFile = config["gateway.tls.certificateFile"];
  const keyFile = config["gateway.tls.keyFile"];
  if (certFile === "" || keyFile === "") return undefined;
  const first = readPair(certFile, keyFile);
  const problem = takeOver(ports, first);
  if (problem !== undefined) {
    const detail = `gateway.tls.certificateFile ${certFile}, gateway.tls.keyFile ${keyFile}: ${problem}`;
    throw new InterlockError("config_invalid", detail);
  }
  return {
    options: { ...modern, ...first },
    watch: (use) => watchFiles(ports, { certFile, keyFile, first }, use),
  };
}

function readPair(certFile: string, keyFile: string): Pair {
  try {
    return { cert: readFileSync(certFile, "utf8"), key: readFileSync(keyFile, "utf8") };
  } catch (error) {
    throw new InterlockError("config_invalid", `gateway.tls: ${String((error as Error).message)}`);
  }
}

/** Reading them whole finds every way of replacing files: written over, renamed, or behind a link that is moved. */
function watchFiles(
  ports: Pick<Ports, "clock" | "log" | "metrics">,
  files: { readonly certFile: string; readonly keyFile: string; readonly first: Pair },
  use: (options: SecureContextOptions) => void,
): () => void {
  let seen = files.first;
  let cancel = () => {};
  let isStopped = false;
  const look = async () => {
    const [cert, key] = await Promise.all([readAgain(files.certFile), readAgain(files.keyFile)]);
    if (isStopped) return;
    arm();
    if (cert === seen.cert && key === seen.key) return;
    seen = { cert, key };
    // One file may be new and the other not yet: then the pair in use stays, and this is said once.
    const problem = takeOver(ports, seen);
    if (problem === undefined) use({ ...modern, ...seen });
    else ports.log.warn("the new certificate is not used", { why: problem });
  };
  const arm = () => {
    cancel = ports.clock.timer(readEveryMs, () => void look());
  };
  arm();
  return () => {
    isStopped = true;
    cancel();
  };
}

/** A file that is just being replaced may be missing for a moment: that is as good as empty. */
function readAgain(path: string): Promise<string> {
  return readFile(path, "utf8").catch(() => "");
}

/** Tells of a pair that can be used; answers why it cannot. */
function takeOver(
  { clock, log, metrics }: Pick<Ports, "clock" | "log" | "metrics">,
  { cert, key }: Pair,
): string | undefined {
  const judged = judgeCertificate(cert, key);
  if (judged.kind === "invalid") return judged.why;
  metrics.set("tls_certificate_end_seconds", {}, Math.floor(judged.endsAtMs / 1_000));
  const isLate = judged.endsAtMs - clock.wallMs() < certificateWarningMs;
  const fields = { ends: formatTime(judged.endsAtMs) };
  if (isLate) log.warn("the gateway's certificate ends within 14 days", fields);
  else log.info("the gateway uses a certificate", fields);
  return undefined;
}
