// Starts a thread from a module of this package, compiled or from source.
import { Worker, type WorkerOptions } from "node:worker_threads";

/** `program` names the module without its ending, unless it is JavaScript in any case. */
export function startThread(program: URL, options: WorkerOptions): Worker {
  if (program.pathname.endsWith(".mjs")) return new Worker(program, options);
  const isCompiled = import.meta.url.endsWith(".js");
  const file = `${program.href}${isCompiled ? ".js" : ".ts"}`;
  if (isCompiled) return new Worker(new URL(file), options);
  // From source the thread has to load TypeScript. On Node 20 neither the parent's loader nor `--import tsx` reaches a
  // thread, so it registers its own; the loader is found from here, since the process may run in any folder.
  const loader = import.meta.resolve("tsx/esm/api");
  const bootstrap = `import("${loader}").then(({ register }) => { register(); return import("${file}"); })`;
  return new Worker(bootstrap, { ...options, eval: true, execArgv: [] });
}
