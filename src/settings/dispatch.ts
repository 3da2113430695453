// The settings of the dispatch check: who is asked before workers may have a job of high risk, and how.
import { amount, choice, milliseconds, optionalText, secretText } from "./kinds.ts";

export const dispatchSettings = {
  "dispatch.checkUrl": optionalText(
    "DISPATCH_CHECK_URL",
    /^https?:\/\/[^\s@]+$/,
    "Asked by POST before workers may have a job of a workflow of risk high. https, or http on this machine.",
  ),
  "dispatch.token": secretText(
    "DISPATCH_TOKEN",
    /^[\x21-\x7e]{1,4096}$/,
    "Sent to dispatch.checkUrl as a bearer token; never shown.",
  ),
  "dispatch.checkTimeoutMs": milliseconds(
    "DISPATCH_CHECK_TIMEOUT_MS",
    5_000,
    10,
    3_600_000,
    "How long one question to the check may take; beyond it the job stays held and is asked about again.",
  ),
  "dispatch.holdMs": milliseconds(
    "DISPATCH_HOLD_MS",
    10_000,
    10,
    86_400_000,
    "How soon the check is asked again about a job that it holds, unless it says when; also the longest pause after trouble.",
  ),
  "dispatch.hold": choice(
    "DISPATCH_HOLD",
    ["auto", "high", "off"],
    "high: jobs of workflows of risk high wait for the check, also if another process asks it. auto: if this process has a check. off: never.",
  ),
  "dispatch.allowInsecure": choice(
    "DISPATCH_ALLOW_INSECURE",
    ["no", "yes"],
    "yes: dispatch.checkUrl may be http on another machine, where inputs and the token can be read on the way.",
  ),
  "dispatch.checksMax": amount(
    "DISPATCH_CHECKS_MAX",
    "checks",
    32,
    1,
    1_000,
    "Jobs that this process asks about at the same time.",
  ),
} as const;

/** Encrypted, or a way that does not leave this machine. */
export function isSafeAddress(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  if (protocol === "https:") return true;
  return protocol === "http:" && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
}
