// Names this process to an operator who asks who holds a lock: host, process id, and a part that a restart changes.
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

export function systemInstance(): string {
  return `${hostname().replaceAll(/[^A-Za-z0-9.-]/g, "-")}:${process.pid}:${randomBytes(3).toString("hex")}`;
}
