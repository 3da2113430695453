// Distinguishes an error that Redis answered before a script did anything from one that means a bug.

/** Each of these is answered instead of running the script, so that nothing has happened. */
const refusedBefore = [
  "OOM",
  "LOADING",
  "READONLY",
  "BUSY",
  "CLUSTERDOWN",
  "TRYAGAIN",
  "MASTERDOWN",
  "NOREPLICAS",
  "NOAUTH",
  "NOPERM",
  "MISCONF",
  "MOVED",
  "ASK",
];

/**
 * The cause of a refusal without effect, or undefined when the error came out of the script. Scripts read every key
 * before they write the first one, so that meeting a key which is just moving to another node is such a refusal too.
 */
export function refusalWithoutEffect(message: string): string | undefined {
  if (message.includes("attempted to access a non local key")) return "the slot is moving to another server";
  const [code = ""] = message.split(" ", 1);
  return refusedBefore.includes(code) && !cameFromScript(message) ? message : undefined;
}

/** Redis adds the script and the line to every error of a command inside one. */
function cameFromScript(message: string): boolean {
  return message.includes("on @user_script:");
}
