// The health check of the container, without curl: ends with 0 when this process's own server answers /livez (or the path named) with 200.
import { get as getPlain } from "node:http";
import { get as getEncrypted } from "node:https";

const path = process.argv[2] ?? "livez";
const port = process.env.INTERLOCK_GATEWAY_PORT ?? "7300";

const isEncrypted = (process.env.INTERLOCK_GATEWAY_TLS_CERTIFICATE_FILE ?? "") !== "";
const get = isEncrypted ? getEncrypted : getPlain;

// Its certificate names the outside; from in here it is enough that it answers.
const options = { host: "127.0.0.1", port, path: `/${path}`, timeout: 4_000, rejectUnauthorized: false };
const asked = get(options, (answer) => {
  answer.resume();
  if (answer.statusCode !== 200) fail(`/${path} answered ${answer.statusCode}`);
});
asked.on("timeout", () => asked.destroy(new Error("no answer within 4 s")));
asked.on("error", (error) => fail(error.message));

function fail(why) {
  // Seen in `docker inspect`.
  console.error(why);
  process.exitCode = 1;
}
