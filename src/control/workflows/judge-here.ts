// Judges definitions in the process itself: for embedded programs and tests that bring their own store, and the simulator.
import { judgeDefinition, newWorkflowId } from "../../domain/workflow/judge.ts";
import type { DefinitionJudge, Random } from "../../ports/ports.ts";

export function createJudgeHere(random: Random): DefinitionJudge {
  const newId = () => newWorkflowId(random.token());
  return {
    judge: async (tenant, sent) => judgeDefinition(sent, { tenant, newId }),
    close: async () => undefined,
  };
}
