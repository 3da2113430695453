// The settings that say what a process does.
import { text } from "./kinds.ts";

export const processSettings = {
  "process.roles": text(
    "ROLES",
    "gateway,engine,scheduler",
    /^(gateway|engine|scheduler)(,(gateway|engine|scheduler))*$/,
    "What this process does: `gateway` takes requests and hands out jobs, `engine` sweeps and applies what nobody else does, `scheduler` asks the dispatch check.",
  ),
} as const;
