// Writes docs/reference from the tables: npm run docs:reference
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { referencePages } from "./reference-pages.ts";

for (const { path, text } of referencePages()) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  console.log(`wrote ${path}`);
}
