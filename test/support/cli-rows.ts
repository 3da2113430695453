// Every command that only looks or may be repeated, as it is typed, and what it shows people.

/** What the commands are about: made before they are typed. */
export type CliScene = {
  readonly succeeded: string;
  readonly failed: string;
  readonly letter: string;
  readonly waiting: string;
  readonly queued: string;
};

/** In this order: what a command changes is changed after it was looked at. */
export const cliRows: ReadonlyArray<readonly [words: (scene: CliScene) => readonly string[], shows: RegExp]> =
  [
    [() => ["workflows", "list"], /greet +1 +greet shout/],
    [() => ["workflows", "show", "greet"], /^id: greet$/m],
    [() => ["workflows", "validate", "greet.yaml"], /is valid: 2 steps/],
    [() => ["workflows", "save", "greet.yaml"], /Saved greet, revision \d/],
    [() => ["workflows", "dry-run", "greet", "--input", '{"name": "Ada"}'], /Nothing was started/],
    [() => ["runs", "list", "--status", "succeeded", "--limit", "1"], /run_\w+ +greet +succeeded/],
    [({ failed }) => ["runs", "show", failed], /error +greet bank is down/],
    [({ succeeded }) => ["runs", "timeline", succeeded], /shout done/],
    [({ failed }) => ["why", failed], /bank is down[\s\S]*interlock dlq retry/],
    [({ waiting }) => ["why", waiting], /review: approval for/],
    [({ failed }) => ["runs", "rerun", failed, "--plan"], /again: +.*greet/],
    [() => ["approvals", "list"], /:review@1 +pending/],
    [({ waiting }) => ["approvals", "show", `${waiting}:review@1`], /hash +[0-9a-f]{64}/],
    [({ waiting }) => ["approve", `${waiting}:review@1`], /^approved: /],
    [() => ["dlq", "list", "--state", "open"], /:greet@1 +retries_exhausted +open +greet +greet +1/],
    [({ letter }) => ["dlq", "show", letter], /error +bank is down[\s\S]*retryable +yes/],
    [({ letter }) => ["dlq", "retry", letter], /(Retrying step greet|retried before)/],
    [() => ["locks", "list"], /repo\/main +agent 7/],
    [() => ["locks", "list", "--all", "--tenant", "default"], /default +public +repo\/main/],
    [() => ["locks", "show", "repo/main"], /owner +agent 7/],
    [() => ["queue", "list"], /by-workflow\.alone +1 of 1 +1/],
    [
      () => ["queue", "show", "by-workflow.alone"],
      /active +1 of 1[\s\S]*run_\w+ +alone +running[\s\S]*run_\w+ +alone +2/,
    ],
    [({ queued }) => ["runs", "show", queued], /waits +at position 1 at the gate by-workflow\.alone/],
    [
      ({ queued }) => ["why", queued],
      /It is the next\. The end of one of these frees a place[\s\S]*interlock runs cancel run_\w+/,
    ],
    [
      ({ queued }) => ["queue", "move", queued, "--priority", "7"],
      /Moved run_\w+ behind those of priority 7/,
    ],
    [({ queued }) => ["queue", "move", queued, "--head"], /Moved run_\w+ before all others/],
    [() => ["workers"], /w1 +default +greet/],
    [() => ["pools", "set", "gpu", "--max-running", "4", "--topics", "render,train"], /running +0 of 4/],
    [() => ["pools", "set", "gpu", "--unset", "topics"], /running +0 of 4[\s\S]*topics +all/],
    [() => ["pools", "drain", "gpu", "--wait", "--timeout", "10s"], /state +drained/],
    [() => ["pools", "list"], /gpu +0 of 4 +drained +0 +all/],
    [() => ["pools", "resume", "gpu"], /state +open/],
    [() => ["pools", "show", "gpu"], /workers +none seen lately/],
    [() => ["topics", "set", "mail.send", "--max-running", "20"], /mail\.send: 0 of 20 running/],
    [() => ["topics", "list"], /mail\.send +0 of 20 +0 +0/],
    [() => ["events", "--limit", "5"], /document_saved/],
    [({ succeeded }) => ["events", "--run", succeeded], /run_admitted +run_\w+ +greet/],
    [() => ["audit", "list", "--type", "document_saved", "--limit", "2"], /1 +\S+Z +document_saved/],
    [() => ["audit", "verify"], /status +intact[\s\S]*head +\d+:[\w-]{43}/],
    [() => ["audit", "verify", "--tenant", "platform"], /status +intact[\s\S]*tenant +platform/],
    [() => ["tenants", "list"], /^default$/m],
    [() => ["tenants", "show", "default"], /active runs +\d[\s\S]*idempotency keys +\d+ of 500000/],
    [() => ["tenants", "set", "default", "--max-runs", "500"], /max concurrent runs +500/],
    [() => ["tenants", "set", "default", "--unset", "max-runs"], /active runs/],
    [
      () => ["tenants", "set", "default", "--gate", "crm=3", "--at-limit", "queue"],
      /at limit +queue[\s\S]*gate crm +3/,
    ],
    [() => ["tenants", "set", "default", "--gate", "crm=none", "--unset", "at-limit"], /active runs/],
    [
      () => [
        ...["tenants", "set", "default", "--start-rate", "3000/60,burst=50,queue"],
        ...[
          "--topic-rate",
          "llm=100000tokens/60,burst=2000",
          "llm=500/60",
          "--budget",
          "daily=25usd/day,stop",
        ],
      ],
      /start rate +3000\/60,burst=50,queue\s+rate of llm +100000tokens\/60,burst=2000 500\/60\s+budget daily +25usd\/day,stop/,
    ],
    [() => ["budgets"], /daily +the tenant +day +\S+Z +0 of 25 usd \(0%\) +0 +0/],
    [
      () => ["tenants", "set", "default", "--budget", "daily=none", "--unset", "start-rate", "topic-rates"],
      /active runs/,
    ],
    [() => ["budgets", "--all"], /No budget is set, and nothing was spent\./],
    [() => ["tenants", "stop", "default"], /stopped +yes/],
    [() => ["tenants", "resume", "default"], /stopped +no/],
    [() => ["keys", "list"], /default +admin/],
    [() => ["keys", "list", "--tenant", "default"], /default +worker/],
    [() => ["keys", "list", "--platform"], /platform/],
    [() => ["idempotency", "cyd"], /run +run_[\s\S]*ended +succeeded/],
    [() => ["config", "show", "gateway"], /gateway\.port +7300 +default/],
    [() => ["config", "check"], /ok/],
    [() => ["doctor"], /ok +key: admin of default[\s\S]*ok +store: answers/],
  ];
