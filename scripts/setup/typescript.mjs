// Lets a process load TypeScript, by --import: Node takes the types out by itself from 22.18 on, tsx does it where Node does not.
// What Node runs then costs what a release costs. tsx wraps every function and closure, 8 % of the gateway's time for a start.
if (!process.features.typescript) await import("tsx");
