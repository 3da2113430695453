// Compiles src/ to dist/ and puts the Lua scripts beside the compiled files: node scripts/build.mjs [output folder]
import { execFileSync } from "node:child_process";
import { cpSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const output = resolve(process.argv[2] ?? join(root, "dist"));

rmSync(output, { recursive: true, force: true });
const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
execFileSync(process.execPath, [compiler, "-p", join(root, "tsconfig.build.json"), "--outDir", output], {
  stdio: "inherit",
});
cpSync(join(root, "src/adapters/redis/lua"), join(output, "adapters/redis/lua"), { recursive: true });
console.log(`built ${output}`);
