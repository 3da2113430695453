// npm run sbom [-- FILE]: writes what the product is made of as CycloneDX JSON, to standard output or to a file.
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Lockfile, softwareBill } from "./software-bill.ts";

const root = dirname(import.meta.dirname);
const [file] = process.argv.slice(2);
const lock = JSON.parse(readFileSync(join(root, "npm-shrinkwrap.json"), "utf8")) as Lockfile;
const bill = softwareBill(lock);
const text = `${JSON.stringify(bill, null, 2)}\n`;
if (file === undefined) process.stdout.write(text);
else {
  writeFileSync(file, text);
  console.log(`wrote ${file}: ${bill.components.length} components`);
}
