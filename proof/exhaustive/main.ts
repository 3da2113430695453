// Runs the exhaustive mode: node --import tsx proof/exhaustive/main.ts [--scenario NAME] [--bound N]
import { exhaust } from "./exhaust.ts";

process.exitCode = await exhaust(process.argv.slice(2));
