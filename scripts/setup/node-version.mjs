// Says whether this Node can run the product, by the oldest version that package.json names.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { SetupError } from "./setup-error.mjs";

export function requireNodeVersion(root, version = process.versions.node) {
  const range = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).engines?.node ?? "";
  const match = /^(?:>=|\^)\s*(\d+(?:\.\d+){0,2})\b/.exec(range);
  if (match === null) {
    throw new SetupError(
      `package.json: engines.node is "${range}"; write the oldest version first, such as "^20.19 || >=22".`,
    );
  }
  const minimum = match[1];
  if (!isAtLeast(version, minimum)) {
    throw new SetupError(
      `Interlock needs Node >= ${minimum}, but this is Node ${version}. ` +
        `Install a newer one (https://nodejs.org, or: nvm install --lts) and run the command again.`,
    );
  }
}

function isAtLeast(version, minimum) {
  const have = version.split(".").map((part) => Number.parseInt(part, 10));
  const need = minimum.split(".").map(Number);
  const index = need.findIndex((part, position) => have[position] !== part);
  return index === -1 || have[index] > need[index];
}
