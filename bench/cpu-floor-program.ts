// The program that serves the floors in a process of its own, so that its CPU time is that of the floor alone.
import { openFloorServer } from "./runs-floors.ts";

const [folder, redisUrl] = process.argv.slice(2) as [string, string];
const { port } = await openFloorServer(folder, redisUrl);
console.log(JSON.stringify({ port }));
