// Every group of commands, in the order in which help lists them.
import type { Cli } from "../context.ts";
import { addApprovalCommands } from "./approvals.ts";
import { addAuditCommands } from "./audit.ts";
import { addCanaryCommands } from "./canaries.ts";
import { addConfigCommands } from "./config.ts";
import { addDataCommands } from "./data.ts";
import { addDeadLetterCommands } from "./dead-letters.ts";
import { addDoctorCommand } from "./doctor.ts";
import { addDrillCommand } from "./drill.ts";
import { addEventCommands } from "./events.ts";
import { addInitCommand } from "./init.ts";
import { addLockCommands } from "./locks.ts";
import { addPolicyCommands } from "./policies.ts";
import { addPoolCommands, addTopicCommands, addWorkerCommands } from "./pools.ts";
import { addRunCommand } from "./run.ts";
import { addRunsCommands } from "./runs.ts";
import { addServeCommand } from "./serve.ts";
import { addKeyCommands, addTenantCommands } from "./tenants.ts";
import { addWorkflowCommands } from "./workflows.ts";

export const commandGroups: ReadonlyArray<(cli: Cli) => void> = [
  addInitCommand,
  addServeCommand,
  addWorkflowCommands,
  addRunCommand,
  addRunsCommands,
  addApprovalCommands,
  addDeadLetterCommands,
  addLockCommands,
  addWorkerCommands,
  addPoolCommands,
  addTopicCommands,
  addEventCommands,
  addAuditCommands,
  addTenantCommands,
  addKeyCommands,
  addPolicyCommands,
  addCanaryCommands,
  addConfigCommands,
  addDoctorCommand,
  addDrillCommand,
  addDataCommands,
];
