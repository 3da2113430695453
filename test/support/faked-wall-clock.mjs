// Loaded before a program, with `?file=<path>`: its wall clock is off by the milliseconds that the file holds, from moment to moment.
import { readFileSync } from "node:fs";

const file = new URL(import.meta.url).searchParams.get("file") ?? "";
const realNow = Date.now;
const readEveryMs = 20;
let offsetMs = 0;
let readAtMs = -Infinity;

Date.now = () => {
  if (performance.now() - readAtMs >= readEveryMs) {
    offsetMs = Number(readFileSync(file, "utf8"));
    readAtMs = performance.now();
  }
  return realNow() + offsetMs;
};
