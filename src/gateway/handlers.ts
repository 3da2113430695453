// One handler per operation; a missing one does not compile.
import type { Handlers } from "./handler.ts";
import { approvalHandlers } from "./handlers/approval-handlers.ts";
import { jobHandlers } from "./handlers/job-handlers.ts";
import { keyHandlers } from "./handlers/key-handlers.ts";
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
  ...approvalHandlers,
  ...tenantHandlers,
  ...keyHandlers,
  ...serverHandlers,
};
