// Says on what a benchmark ran and how busy the machine was, since numbers mean nothing without it.
import { availableParallelism, loadavg } from "node:os";

export function describeMachine(): string {
  const [lastMinute = 0] = loadavg();
  return `Node ${process.version}, ${availableParallelism()} processors, load ${lastMinute.toFixed(1)} before the run`;
}
