// Lets one process at a time do the setup of a checkout, and survives the sudden death of that process.
import { randomUUID } from "node:crypto";
import { mkdirSync, readFileSync, readlinkSync, symlinkSync, unlinkSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { SetupError, say } from "./setup-error.mjs";

const WAIT_LIMIT_MS = 10 * 60 * 1000;
const POLL_INTERVAL_MS = 100;
const UNKNOWN = "0";

/**
 * Runs `work` while holding the lock at `lockPath`.
 *
 * A claim is a symbolic link whose target is the text `pid.start.uuid`: creating one is atomic and writes
 * the text in the same step, so nobody can ever see a lock that does not yet name its holder.
 *
 * `work` is given a function that takes the pid of a child which does its part of the work: should this
 * process be killed, the lock stays taken until that child has ended too.
 */
export async function exclusively(lockPath, work, { waitLimitMs = WAIT_LIMIT_MS } = {}) {
  mkdirSync(dirname(lockPath), { recursive: true });
  const own = claimFor(process.pid);
  const workerLink = `${lockPath}.worker`;
  const deadline = Date.now() + waitLimitMs;
  let told = false;
  while (!tryClaim(lockPath, own)) {
    const holder = readClaim(lockPath);
    if (holder === null) continue;
    const active = [holder, readClaim(workerLink)].find(isAlive);
    if (active === undefined && removeDeadLock(lockPath, holder, own)) continue;
    const pid = pidOf(active ?? holder);
    if (Date.now() >= deadline) throw waitedTooLong(lockPath, pid, waitLimitMs);
    if (!told) say(`Waiting for another Interlock command to finish its setup (process ${pid}) ...`);
    told = true;
    await delay(POLL_INTERVAL_MS);
  }
  try {
    return await work((pid) => {
      removeLink(workerLink);
      tryClaim(workerLink, claimFor(pid));
    });
  } finally {
    removeLink(workerLink);
    if (readClaim(lockPath) === own) removeLink(lockPath);
  }
}

/**
 * Removes the lock of a dead holder; false when another live process is about to do so.
 *
 * Two waiters may both find the holder dead. Were each simply to remove the lock, the slower one could
 * remove the lock that the faster one has taken meanwhile. So the right to remove a dead claim is itself
 * claimed, under a name that holds the dead claim's unique text. If that heir dies as well, the right
 * passes to the heir of the heir, and so on. An heir removes the lock only if it still holds the dead
 * claim: a waiter that comes late, after the heirs' links are gone, finds another claim and leaves it.
 */
function removeDeadLock(lockPath, deadHolder, own) {
  const heirLinks = [];
  let ancestor = deadHolder;
  for (;;) {
    const heirLink = `${lockPath}.heir.${ancestor}`;
    heirLinks.push(heirLink);
    if (tryClaim(heirLink, own)) break;
    const heir = readClaim(heirLink);
    if (heir === null) return true;
    if (isAlive(heir)) return false;
    ancestor = heir;
  }
  if (readClaim(lockPath) === deadHolder) removeLink(lockPath);
  // The lock goes first: as long as it holds the dead claim, the line of heirs has to stay unbroken.
  for (const heirLink of heirLinks) removeLink(heirLink);
  return true;
}

function tryClaim(path, claim) {
  try {
    symlinkSync(claim, path);
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw new SetupError(
      `Cannot create ${path} (${error.code}). Make its folder writable and run the command again.`,
    );
  }
}

function readClaim(path) {
  try {
    return readlinkSync(path);
  } catch (error) {
    if (error.code === "ENOENT") return null;
    throw new SetupError(
      `Cannot read the setup lock ${path} (${error.code}). Remove it and run the command again.`,
    );
  }
}

function removeLink(path) {
  try {
    unlinkSync(path);
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
}

function claimFor(pid) {
  return `${pid}.${inspectProcess(pid).start}.${randomUUID()}`;
}

function pidOf(claim) {
  return Number(claim.split(".")[0]);
}

function isAlive(claim) {
  if (claim === null) return false;
  const [pid, start] = claim.split(".");
  try {
    process.kill(Number(pid), 0);
  } catch (error) {
    if (error.code !== "EPERM") return false;
  }
  const found = inspectProcess(pid);
  return !found.ended && (found.start === start || found.start === UNKNOWN || start === UNKNOWN);
}

/**
 * What the kernel says of a process, where it does. Its start tells the holder from a later process that
 * was given the same pid, which is common in containers. A process that has ended but was never reaped by
 * its parent still has its pid.
 */
function inspectProcess(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field, the program's name in brackets, may hold spaces; the fields after it are plain.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return { ended: fields[0] === "Z" || fields[0] === "X", start: fields[19] };
  } catch {
    return { ended: false, start: UNKNOWN };
  }
}

function waitedTooLong(lockPath, pid, waitLimitMs) {
  return new SetupError(
    `Gave up after ${Math.round(waitLimitMs / 1000)} s: process ${pid} still holds the setup lock. ` +
      `Wait for it or end it and run the command again; if it is not an Interlock command, remove ${lockPath}.`,
  );
}
