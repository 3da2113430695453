// Planted bugs in what is deployed and in the pages that operators act by.
import type { TextPatch } from "../planted-bug.ts";

const packaging = "test/unit/packaging.test.ts";
const composing = "test/unit/packaging-compose.test.ts";

export const plantedPackagingBugs: readonly TextPatch[] = [
  {
    name: "image-runs-as-root",
    what: "the container's process is root",
    edits: [{ file: "deploy/docker/Dockerfile", find: "USER 10001:10001\n", replace: "USER root\n" }],
    tests: [packaging],
  },
  {
    name: "build-sees-everything",
    what: "keys and data of the checkout reach the build of the image",
    edits: [{ file: ".dockerignore", find: "\n*\n", replace: "\n" }],
    tests: [packaging],
  },
  {
    name: "compose-primary-writes-alone",
    what: "the primary of the compose file takes changes that no replica has: a failover loses what was answered",
    edits: [
      {
        file: "deploy/compose/redis.conf",
        find: "min-replicas-to-write 1",
        replace: "min-replicas-to-write 0",
      },
    ],
    tests: [composing],
  },
  {
    name: "compose-kills-while-draining",
    what: "containers are killed before a stop has answered what is under way",
    edits: [
      {
        file: "deploy/compose/compose.yaml",
        find: "stop_grace_period: 20s",
        replace: "stop_grace_period: 10s",
      },
    ],
    tests: [composing],
  },
  {
    name: "compose-misspelt-setting",
    what: "a variable of the compose file is no setting: every process would refuse to start",
    edits: [
      {
        file: "deploy/compose/compose.yaml",
        find: "INTERLOCK_BUS_REPLICAS:",
        replace: "INTERLOCK_NATS_REPLICAS:",
      },
    ],
    tests: [composing],
  },
  {
    name: "unit-denies-the-compiler",
    what: "systemd forbids executable memory, and Node does not start",
    edits: [
      {
        file: "deploy/systemd/interlock.service",
        find: "NoNewPrivileges=yes\n",
        replace: "NoNewPrivileges=yes\nMemoryDenyWriteExecute=yes\n",
      },
    ],
    tests: [packaging],
  },
  {
    name: "log-line-renamed",
    what: "a log line is worded otherwise than the runbook says: a search for it finds nothing",
    edits: [
      {
        file: "src/control/locks/acquire-public-lock.ts",
        find: '"public lock busy"',
        replace: '"public lock is busy"',
      },
    ],
    tests: ["test/unit/lock-pages.test.ts"],
  },
  {
    name: "requirement-without-a-home",
    what: "the page of requirements names a setting that there is not",
    edits: [
      {
        file: "docs/guide/requirements.md",
        find: "| R000-04 | The lock's ttl is 10 s. | `locks.admission.ttlMs`",
        replace: "| R000-04 | The lock's ttl is 10 s. | `locks.admission.lifeMs`",
      },
    ],
    tests: ["test/unit/requirements.test.ts"],
  },
  {
    name: "proof-in-the-package",
    what: "users install the simulator and the planted bugs with the product",
    edits: [
      {
        file: "package.json",
        find: `"files": [\n    "dist"`,
        replace: `"files": [\n    "proof",\n    "dist"`,
      },
    ],
    tests: ["test/unit/supply-chain.test.ts"],
  },
  {
    name: "package-without-its-pages",
    what: "the package lacks the pages that its errors name",
    edits: [{ file: "package.json", find: '    "docs/guide",\n', replace: "" }],
    tests: ["test/e2e/package.test.ts"],
  },
  {
    name: "package-with-source-maps",
    what: "every file is shipped twice: what it does, and a map to sources that are not there",
    edits: [
      {
        file: "tsconfig.build.json",
        find: '"declaration": true',
        replace: '"declaration": true, "sourceMap": true',
      },
    ],
    tests: ["test/e2e/package.test.ts"],
  },
  {
    name: "sqlite-warns-at-start",
    what: "on Node 22 every start says that SQLite is experimental",
    edits: [
      {
        file: "src/adapters/sqlite/driver.ts",
        find: "  process.emitWarning = () => {};\n",
        replace: "",
      },
    ],
    tests: ["test/conformance/sqlite-file.test.ts"],
  },
];
