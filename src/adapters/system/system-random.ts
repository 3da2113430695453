// Real chance: tokens from the operating system's generator, jitter from the fast one.
import { randomBytes } from "node:crypto";
import type { Random } from "../../ports/random.ts";

export const systemRandom: Random = {
  token: () => randomBytes(16).toString("hex"),
  fraction: () => Math.random(),
};
