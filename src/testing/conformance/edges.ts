// All edges of the store port.
import { budgetEdges } from "./budget-edges.ts";
import type { Edge } from "./edge.ts";
import { gateEdges } from "./gate-edges.ts";
import { lockEdges } from "./lock-edges.ts";
import { rateEdges } from "./rate-edges.ts";
import { sizeEdges } from "./size-edges.ts";
import { sweepEdges } from "./sweep-edges.ts";
import { timeEdges } from "./time-edges.ts";

export const edges: readonly Edge[] = [
  ...[...lockEdges, ...timeEdges, ...sweepEdges, ...sizeEdges],
  ...[...gateEdges, ...rateEdges, ...budgetEdges],
];
