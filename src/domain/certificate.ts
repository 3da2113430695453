// A certificate and its key as PEM texts: whether they belong together, and when the certificate ends.
import { createPrivateKey, X509Certificate } from "node:crypto";
import { parseTime } from "./engine/rfc3339.ts";

type JudgedCertificate =
  | { readonly kind: "valid"; readonly endsAtMs: number }
  /** `why` never holds anything of the key. */
  | { readonly kind: "invalid"; readonly why: string };

/** People should know this long before the end. */
export const certificateWarningMs = 14 * 24 * 3_600_000;

export function judgeCertificate(certificate: string, key: string): JudgedCertificate {
  const parsed = parsedOr(() => new X509Certificate(certificate));
  if (parsed === undefined) return { kind: "invalid", why: "the certificate is no PEM certificate" };
  const privateKey = parsedOr(() => createPrivateKey(key));
  if (privateKey === undefined)
    return { kind: "invalid", why: "the key is no PEM key, or one with a passphrase" };
  if (!parsed.checkPrivateKey(privateKey))
    return { kind: "invalid", why: "the key does not belong to the certificate" };
  const endsAtMs = certificateTimeMs(parsed.validTo);
  return endsAtMs === undefined
    ? { kind: "invalid", why: "the certificate's end cannot be read" }
    : { kind: "valid", endsAtMs };
}

function parsedOr<Value>(parse: () => Value): Value | undefined {
  try {
    return parse();
  } catch {
    return undefined;
  }
}

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** `Nov  6 08:49:37 2027 GMT`, as OpenSSL writes it. */
function certificateTimeMs(text: string): number | undefined {
  const [, month = "", day = "", clock, year] =
    /^(\w{3}) +(\d{1,2}) (\d{2}:\d{2}:\d{2}) (\d{4}) GMT$/.exec(text) ?? [];
  const number = months.indexOf(month) + 1;
  return parseTime(`${year}-${String(number).padStart(2, "0")}-${day.padStart(2, "0")}T${clock}Z`);
}
