// One handler per operation; a missing one does not compile.
import type { Handlers } from "./handler.ts";
import { approvalHandlers } from "./handlers/approval-handlers.ts";
import { auditHandlers } from "./handlers/audit-handlers.ts";
import { canaryHandlers } from "./handlers/canary-handlers.ts";
import { deadLetterHandlers } from "./handlers/dead-letter-handlers.ts";
import { eventHandlers } from "./handlers/event-handlers.ts";
import { jobHandlers } from "./handlers/job-handlers.ts";
import { keyHandlers } from "./handlers/key-handlers.ts";
import { lockHandlers } from "./handlers/lock-handlers.ts";
import { policyHandlers } from "./handlers/policy-handlers.ts";
import { poolHandlers } from "./handlers/pool-handlers.ts";
import { runHandlers } from "./handlers/run-handlers.ts";
import { serverHandlers } from "./handlers/server-handlers.ts";
import { startHandlers } from "./handlers/start-handler.ts";
import { tenantHandlers } from "./handlers/tenant-handlers.ts";
import { workflowHandlers } from "./handlers/workflow-handlers.ts";

export const handlers: Handlers = {
  ...workflowHandlers,
  ...startHandlers,
  ...runHandlers,
  ...jobHandlers,
  ...poolHandlers,
  ...approvalHandlers,
  ...deadLetterHandlers,
  ...lockHandlers,
  ...tenantHandlers,
  ...policyHandlers,
  ...canaryHandlers,
  ...keyHandlers,
  ...eventHandlers,
  ...auditHandlers,
  ...serverHandlers,
};
