// Loaded before a server that is soaked, with `?file=<path>&everyMs=<n>`: writes what its process uses, one JSON line at a time.
import { appendFileSync, readdirSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread } from "node:worker_threads";

/** Every sixth line follows a full collection: what is then left is what is held, and a leak of 1 MB is seen under garbage of 50. */
const collectedEvery = 6;

function watch({ file, everyMs }) {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  let lines = 0;
  const write = () => {
    lines += 1;
    const isCollected = lines % collectedEvery === 0;
    if (isCollected) collect();
    const { rss, heapUsed } = process.memoryUsage();
    const { user, system } = process.cpuUsage();
    const line = {
      cpuMs: (user + system) / 1_000,
      memoryBytes: rss,
      ...(isCollected ? { heapBytes: heapUsed } : {}),
      descriptors: readdirSync("/proc/self/fd").length,
      // Without connections, which are among the descriptors.
      resources: process.getActiveResourcesInfo().filter((name) => name !== "TCPSocketWrap").length,
    };
    appendFileSync(file, `${JSON.stringify(line)}\n`);
  };
  setInterval(write, everyMs).unref();
}

const options = new URL(import.meta.url).searchParams;
// Threads of the server inherit what was loaded before it.
if (isMainThread) watch({ file: options.get("file"), everyMs: Number(options.get("everyMs")) });
