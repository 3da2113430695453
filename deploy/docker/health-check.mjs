// The health check of the container, without curl: ends with 0 when this process's own server answers /livez (or the path named) with 200.
const path = process.argv[2] ?? "livez";
const port = process.env.INTERLOCK_GATEWAY_PORT ?? "7300";

try {
  const answer = await fetch(`http://127.0.0.1:${port}/${path}`, { signal: AbortSignal.timeout(4_000) });
  if (!answer.ok) throw new Error(`/${path} answered ${answer.status}`);
} catch (error) {
  // Seen in `docker inspect`.
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
