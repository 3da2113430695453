// An authority of our own with certificates for 127.0.0.1, made anew with openssl for every test that encrypts.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export type Certificates = {
  readonly caFile: string;
  /** For servers and for clients. */
  readonly certFile: string;
  readonly keyFile: string;
  remove(): void;
};

/** `names` besides the address. */
export function makeCertificates(names: readonly string[] = []): Certificates {
  const folder = mkdtempSync(join(tmpdir(), "interlock-tls-"));
  const file = (name: string) => join(folder, name);
  const openssl = (...args: string[]) => execFileSync("openssl", args, { cwd: folder, stdio: "pipe" });
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  openssl(
    "req",
    "-x509",
    ...newKey,
    "-keyout",
    "ca.key",
    "-out",
    "ca.pem",
    "-days",
    "2",
    "-subj",
    "/CN=test authority",
  );
  openssl("req", ...newKey, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=127.0.0.1");
  const all = ["IP:127.0.0.1", ...names.map((name) => `DNS:${name}`)];
  writeFileSync(file("names"), `subjectAltName=${all.join(",")}\n`);
  const signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"];
  openssl("x509", "-req", "-in", "server.csr", "-out", "server.pem", ...signing);
  return {
    caFile: file("ca.pem"),
    certFile: file("server.pem"),
    keyFile: file("server.key"),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
