// Planted bugs in the bus: messages lost, repeated, accepted although forged, or blocking each other.
import type { TextPatch } from "../planted-bug.ts";

const nats = "src/adapters/nats";
const conformance = "test/conformance/nats-bus.test.ts";
const workers = "test/conformance/nats-workers.test.ts";
const outage = "test/unit/flow-bus-outage.test.ts";
const held = "src/control/jobs/held-hints.ts";

/** One edit, caught by one test file. */
function bug(
  name: string,
  what: string,
  test: string,
  edit: { readonly file: string; readonly find: string; readonly replace: string },
): TextPatch {
  return { name, what, edits: [edit], tests: [test] };
}

export const plantedBusBugs: readonly TextPatch[] = [
  bug(
    "bus-delay-left-to-server",
    "delays are the server's to keep, which puts them off while new messages keep being given back",
    conformance,
    {
      file: `${nats}/parking.ts`,
      find: "if (isOver || delayMs <= 0 || parked.size >= parkedMax) return deliverLater(message, delayMs);",
      replace: "return deliverLater(message, delayMs);",
    },
  ),
  bug(
    "bus-parked-without-backup",
    "the server is not told the delay of a parked message: after a crash it waits for the whole time of a verdict",
    "test/unit/nats-parking.test.ts",
    { file: `${nats}/parking.ts`, find: "      deliverLater(message, delayMs + backupMs);\n", replace: "" },
  ),
  bug(
    "bus-age-since-delivery",
    "a message that is delivered again looks as if it had just been stored",
    conformance,
    {
      file: `${nats}/deliver.ts`,
      find: "ageMs: Math.max(0, clock.wallMs() - storedAtMs) || 0",
      replace: "ageMs: 0 * storedAtMs * clock.wallMs() || 0",
    },
  ),
  bug(
    "bus-ack-before-verdict",
    "a message is acknowledged before its handler has answered: a crash or a busy run loses it",
    conformance,
    {
      file: `${nats}/deliver.ts`,
      find: `  const verdict = await judgeDelivery(scene, work, delivery);`,
      replace: `  acknowledge(message);
  const verdict = await judgeDelivery(scene, work, delivery);`,
    },
  ),
  bug(
    "bus-drop-before-dead-letter",
    "a message is dropped before its dead letter is written: when that fails it is nowhere",
    conformance,
    {
      file: `${nats}/deliver.ts`,
      find: `    await handlers.giveUp(delivery, because);
    terminate(message);`,
      replace: `    terminate(message);
    await handlers.giveUp(delivery, because);`,
    },
  ),
  bug("bus-delay-ignored", "a retry comes back at once: results of a busy run spin", conformance, {
    file: `${nats}/deliver.ts`,
    find: 'say(message, delay === 0 ? "-NAK" : `-NAK ${JSON.stringify({ delay })}`);',
    replace: 'say(message, delay === 0 ? "-NAK" : "-NAK");',
  }),
  bug(
    "bus-parked-messages-count",
    "messages that wait for their delay use up the consumer's limit: one hot run holds up all others",
    conformance,
    {
      file: `${nats}/consumer.ts`,
      find: `max_ack_pending: Math.max(unacknowledgedMax, terms.pendingMax),`,
      replace: `max_ack_pending: terms.pendingMax,`,
    },
  ),
  bug(
    "bus-signature-not-checked",
    "a signature is asked for and not compared: anybody who reaches the bus can forge messages",
    "test/conformance/nats-signatures.test.ts",
    {
      file: `${nats}/messages.ts`,
      find: `      if (!genuine) return "forged";
`,
      replace: "",
    },
  ),
  bug(
    "bus-signature-without-subject",
    "the subject is not signed: a genuine message can be moved to another tenant",
    "test/conformance/nats-signatures.test.ts",
    {
      file: `${nats}/messages.ts`,
      find: `JSON.stringify([subject, id, expiresAtMs])`,
      replace: `JSON.stringify(["", id, expiresAtMs])`,
    },
  ),
  bug(
    "bus-stream-stays-removed",
    "a stream that somebody removed is not made again by publishing: messages go nowhere until a restart",
    "test/faults/nats-bus.test.ts",
    {
      file: `${nats}/nats-bus.ts`,
      find: `      await makeStream(stream);
`,
      replace: "",
    },
  ),
  bug(
    "bus-missed-hints-not-claimed",
    "a process that was cut off finds the jobs it missed and claims none: its workers wait for the sweep",
    outage,
    {
      file: "src/control/jobs/hear-hints.ts",
      find: `      if (found.kind === "found") await claimMatches(engine, tenant, topics);`,
      replace: `      if (found.kind !== "found") await claimMatches(engine, tenant, topics);`,
    },
  ),
  bug(
    "bus-pending-publications-forgotten",
    "a hint that the bus did not take is not published again: others learn of the job from the sweep",
    outage,
    {
      file: "src/control/jobs/hints.ts",
      find: `if (publication.kind === "unavailable") pendingPublications.keep(stream, again);`,
      replace: `if (publication.kind === "unavailable") pendingPublications.close();`,
    },
  ),
  bug(
    "bus-acknowledgement-of-another",
    "acknowledgements have no names of their own: one is taken for that of another message, whose publisher waits in vain",
    conformance,
    {
      file: `${nats}/nats-bus.ts`,
      find: "const name = sent.toString(36);",
      replace: 'const name = "1";',
    },
  ),
  bug(
    "held-hint-never-published",
    "a job that the workers of its process leave is published to nobody, although a worker of another process waits",
    "test/unit/held-hints.test.ts",
    {
      file: held,
      find: "const named = pending.length > 0 ? pending : group.ours.splice(0, 1).map((held) => held.hint);",
      replace: "const named = pending;",
    },
  ),
  bug(
    "held-hints-dropped",
    "hints that follow the first are held, and nothing is said of them when the wait is over: idle workers elsewhere wait for the sweep",
    "test/unit/held-hints.test.ts",
    {
      file: held,
      find: "if (publishPending(scene, group)) wait(",
      replace: "if (publishPending(scene, { ...group, pending: group.pending.slice(0, 1) })) wait(",
    },
  ),
  bug(
    "held-hints-without-more",
    "a message does not say that others wait which it does not name: nobody looks for them",
    "test/unit/held-hints.test.ts",
    {
      file: held,
      find: "unnamed: unnamed || group.ours.length > 0",
      replace: "unnamed: false",
    },
  ),
  bug(
    "held-hint-hides-requirement",
    "jobs that ask for another worker are held with the others of their topic: the message names them as if any worker could do them",
    "test/unit/held-hints.test.ts",
    {
      file: held,
      find: `const name = \`\${tenant} \${topic} \${requires}\`;`,
      replace: `const name = \`\${tenant} \${topic} \${requires.slice(0, 0)}\`;`,
    },
  ),
  bug(
    "held-hints-wait-ever-longer",
    "hints for workers of another process become rarer like those that nobody wants: a burst comes there a second late",
    "test/unit/held-hints.test.ts",
    {
      file: held,
      find: "if (group.waitMs > waitMs.first && scene",
      replace: "if (group.waitMs > waitMs.most && scene",
    },
  ),
  bug(
    "unnamed-jobs-of-the-first-hint-alone",
    "of hints that arrive together only the first is asked whether other jobs wait: those behind the second are not looked for",
    "test/unit/flow-hints.test.ts",
    {
      file: "src/control/jobs/hear-hints.ts",
      find: "if (hasUnnamed(message)) heard.unnamed.add(hint.requires);",
      replace: "if (hasUnnamed(message) && heard.unnamed.size === 0) heard.unnamed.add(hint.requires);",
    },
  ),
  bug(
    "unnamed-jobs-looked-for-by-another",
    "the worker that looks for unnamed jobs is any that waits, not one that can do them: it finds nothing",
    "test/unit/flow-hints.test.ts",
    {
      file: "src/control/jobs/hear-hints.ts",
      find: "offer.free() > 0 && fitsRequirements(requires, offer)",
      replace: "offer.free() > 0 && fitsRequirements(undefined, offer)",
    },
  ),
  bug(
    "own-hint-heard-again",
    "a process remembers a job a second time when its own hint comes back: its next poll claims what is gone",
    "test/unit/flow-hints.test.ts",
    {
      file: "src/control/jobs/hear-hints.ts",
      find: 'if (from === ports.instance) return { kind: "done" };',
      replace: "void from;",
    },
  ),
  bug(
    "changes-told-late",
    "a change after a silence is told to other processes with the next gathering, not at once",
    "test/unit/change-announcer.test.ts",
    {
      file: "src/control/events/wakes.ts",
      find: 'if (state === "idle" || changed.size >= tenantsMax) tell();',
      replace:
        'if (state === "idle") {\n        state = "gathering";\n        cancel = clock.timer(gatherMs.watched, tell);\n      }',
    },
  ),
  bug(
    "watcher-of-another-process-unheard",
    "a process that hears that another one watches goes on telling of changes once a second",
    "test/unit/change-announcer.test.ts",
    {
      file: "src/control/events/wakes.ts",
      find: "      watchedAtMs = clock.monotonicMs();\n",
      replace: "",
    },
  ),
  bug("bus-result-of-another-tenant", "a worker's key is believed under another tenant's subject", workers, {
    file: `${nats}/worker-messages.ts`,
    find: `if (tenantOfKey(keyId) !== tenant)`,
    replace: `if (tenantOfKey(keyId) === undefined)`,
  }),
  bug("bus-worker-unsigned", "a worker's message needs no signature, only the name of a key", workers, {
    file: `${nats}/worker-messages.ts`,
    find: `    const refusal = refusalOf(writing, createSigner([sender.secretHash]), message);`,
    replace: `    const refusal = refusalOf(writing, createSigner([]), message);`,
  }),
  bug("bus-worker-for-ever", "a worker's message may be believed for ever", workers, {
    file: `${nats}/worker-messages.ts`,
    find: `if (isTooFar)`,
    replace: `if (isTooFar && !isTooFar)`,
  }),
  bug(
    "bus-answer-anywhere",
    "an answer goes wherever the sender says: the control plane publishes in a worker's place",
    workers,
    {
      file: `${nats}/worker-messages.ts`,
      find: `  return address.startsWith(answers) &&`,
      replace: `  return address.length > 0 &&`,
    },
  ),
  bug("bus-worker-of-any-role", "a key that may only read takes jobs over the bus", workers, {
    file: "src/control/jobs/hear-results.ts",
    find: `workerRoles.some((role) => role === key.role)`,
    replace: `workerRoles.length > 0`,
  }),
  bug("bus-jobs-in-one-part", "jobs that do not fit into one message are cut off", workers, {
    file: "src/gateway/bus-requests.ts",
    find: `  return parts.map((texts, index) =>`,
    replace: `  return parts.slice(0, 1).map((texts, index) =>`,
  }),
];
