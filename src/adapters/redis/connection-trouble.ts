// Says what is wrong with a connection in words that help: the errors of encryption name neither our settings nor a way out.
import { ConnectionTimeoutError, SocketClosedUnexpectedlyError } from "@redis/client";
import { InterlockError } from "../../errors.ts";

/** By the code that Node or OpenSSL gives the error. */
const adviceByCode: Readonly<Record<string, string>> = {
  ...sharedAdvice(
    [
      "SELF_SIGNED_CERT_IN_CHAIN",
      "DEPTH_ZERO_SELF_SIGNED_CERT",
      "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
      "UNABLE_TO_GET_ISSUER_CERT",
      "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
      "CERT_SIGNATURE_FAILURE",
    ],
    "set store.tlsCaFile to the certificate of the authority that signed the server's",
  ),
  ERR_TLS_CERT_ALTNAME_INVALID: "address the server by a name or IP that its certificate holds",
  CERT_HAS_EXPIRED: "renew the server's certificate",
  CERT_NOT_YET_VALID: "check this machine's clock",
  ...sharedAdvice(
    ["ERR_SSL_WRONG_VERSION_NUMBER", "ERR_SSL_PACKET_LENGTH_TOO_LONG", "ERR_SSL_BAD_RECORD_TYPE"],
    "this port does not speak TLS: use its TLS port, or redis:// in store.redisUrls",
  ),
  ...sharedAdvice(
    [
      "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED",
      "ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE",
      "ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE",
      "ERR_SSL_TLSV1_ALERT_UNKNOWN_CA",
    ],
    "the server wants a certificate of ours that it trusts: set store.tlsCertFile and store.tlsKeyFile",
  ),
};

function sharedAdvice(codes: readonly string[], advice: string): Record<string, string> {
  return Object.fromEntries(codes.map((code) => [code, advice]));
}

/** A host with several addresses fails with an error that has a code but no message. */
export function describeTrouble(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = "code" in error ? String(error.code) : "";
  const message = error.message !== "" ? oneLine(error.message) : code || error.name;
  const advice = adviceByCode[code];
  return advice === undefined ? message : `${message}: ${advice}`;
}

/** Before the first answer, silence or a reset is likely to mean that only one side speaks TLS. */
export function describeFirstTrouble(error: unknown, { isEncrypted }: { isEncrypted: boolean }): string {
  const trouble = describeTrouble(error);
  const isReset =
    error instanceof SocketClosedUnexpectedlyError ||
    (error instanceof Error && "code" in error && error.code === "ECONNRESET");
  if (!isEncrypted && isReset) return `${trouble}: if this is a TLS port, use rediss:// in store.redisUrls`;
  if (isEncrypted && (isReset || error instanceof ConnectionTimeoutError)) {
    return `${trouble}: if this port does not speak TLS, use its TLS port, or redis:// in store.redisUrls`;
  }
  return trouble;
}

const ownLogin =
  "correct store.redisUser and store.redisPassword, or the user and password in store.redisUrls";
const rights = "give its user the rights that docs/guide/redis.md lists";

/** What a server says that will say the same again, however long we wait, and what to do about it where it does not say so itself. */
const lastingRefusals: readonly (readonly [pattern: RegExp, advice: string])[] = [
  [/sentinel [^;]*(WRONGPASS|NOAUTH)/, "correct the Sentinel's own user and password in store.redisUrls"],
  [/WRONGPASS|NOAUTH|called without any password configured/, ownLogin],
  [/NOPERM|can't run this command/, rights],
  [/cluster support disabled/, "set store.redisMode to standalone or sentinel"],
  [/set store\.redisMaster to|it is no Sentinel/, ""],
];

/** Why the store cannot be opened: `store_unsuitable` where waiting cannot help, `store_unavailable` where it may. */
export function openingError(trouble: string): InterlockError {
  const isEncryption = Object.values(adviceByCode).some((advice) => trouble.includes(advice));
  const advice = isEncryption ? "" : lastingRefusals.find(([pattern]) => pattern.test(trouble))?.[1];
  if (advice === undefined) return new InterlockError("store_unavailable", trouble);
  return new InterlockError("store_unsuitable", advice === "" ? trouble : `${trouble}: ${advice}`);
}

/** OpenSSL's messages are a source line, an error number and a line break. */
function oneLine(message: string): string {
  return message.trim().replaceAll(/\s*\n\s*/g, " ");
}
