// Loaded into every thread of a measured process before its program: names worker threads for the kernel, and profiles the main
// thread and SQLite's thread when the benchmark asks for it. It is CommonJS, because --import does not reach threads on Node 20.
const { readFileSync, writeFileSync } = require("node:fs");
const { Session } = require("node:inspector");
const { basename } = require("node:path");
const { BroadcastChannel, isMainThread } = require("node:worker_threads");

const sampleEveryUs = 500;
const channel = new BroadcastChannel("cpu-profile");
channel.unref();
let session;
let startedUs = 0;

/** CPU time of this thread so far. */
function threadUs() {
  return Number(readFileSync("/proc/thread-self/schedstat", "utf8").split(" ")[0]) / 1_000;
}

function post(method, params) {
  return new Promise((resolve, reject) => {
    session.post(method, params, (error, answer) => (error === null ? resolve(answer) : reject(error)));
  });
}

/** Gives the file that was written, if any. */
async function perform({ kind, prefix }, thread) {
  if (kind === "start") {
    session = new Session();
    session.connect();
    await post("Profiler.enable");
    await post("Profiler.setSamplingInterval", { interval: sampleEveryUs });
    await post("Profiler.start");
    startedUs = threadUs();
    return undefined;
  }
  const cpuUs = threadUs() - startedUs;
  const { profile } = await post("Profiler.stop");
  session.disconnect();
  const file = `${prefix}-${thread}.cpuprofile`;
  writeFileSync(file, JSON.stringify(profile));
  return { thread, file, cpuUs };
}

function listenAsMain() {
  let hasStoreThread = false;
  let answerOfStore;
  channel.onmessage = ({ data }) => {
    if (data.from !== "sqlite") return;
    if (data.kind === "ready") hasStoreThread = true;
    else answerOfStore?.(data.written);
  };
  const carryOut = async (order) => {
    const fromStore = hasStoreThread
      ? new Promise((resolve) => {
          answerOfStore = resolve;
        })
      : undefined;
    channel.postMessage({ from: "main", order });
    const written = [await perform(order, "main"), await fromStore];
    process.send({ written: written.filter((each) => each !== undefined) });
  };
  process.on("message", (order) => void carryOut(order));
  process.channel.unref();
}

function listenAsStore() {
  const carryOut = async (order) => {
    channel.postMessage({ from: "sqlite", kind: "done", written: await perform(order, "sqlite") });
  };
  channel.onmessage = ({ data }) => void (data.from === "main" && carryOut(data.order));
  channel.postMessage({ from: "sqlite", kind: "ready" });
}

if (isMainThread) {
  if (process.send !== undefined) listenAsMain();
} else {
  // Only then is it known which program the thread runs.
  setImmediate(() => {
    const name = basename(process.argv[1] ?? "thread", ".js");
    writeFileSync("/proc/thread-self/comm", name);
    if (name === "sqlite-thread") listenAsStore();
  });
}
