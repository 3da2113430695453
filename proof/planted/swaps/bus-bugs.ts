// Known mistakes about messages, dead letters, reruns, queues of locks and followed events, put in on purpose.

import { asBaseline, busyDay } from "../../simulation/narrow-swarm.ts";
import type { Swap } from "../planted-bug.ts";
import {
  breaksAnyGrant,
  emptyResultsTakenOver,
  letterStaysOpen,
  queueOvertaken,
  reopenedPastTheLimit,
  silentTicketsWin,
  whoLeavesKeepsItsPlace,
} from "./broken-letters-and-queues.ts";
import {
  deliverWithoutEnd,
  dropBeforeLetter,
  endedRunsAreBusy,
  heldJobsAreToldOnce,
  rowLeftOut,
  rowRepeated,
} from "./broken-messages.ts";

export const swappedBus: Readonly<Record<string, Swap>> = {
  drop_before_letter: {
    what: "a message is dropped while its dead letter is still being written",
    caughtBy: ["INV-23"],
    seedsMax: 500,
    swarm: (swarm) => asBaseline(busyDay(swarm)),
    wrapBus: dropBeforeLetter,
  },
  deliveries_without_end: {
    what: "nobody counts how often a message is delivered",
    caughtBy: ["INV-23"],
    seedsMax: 500,
    wrapBus: deliverWithoutEnd,
  },
  ended_runs_are_busy: {
    what: "the result of a run that has ended waits for its lock, again and again",
    caughtBy: ["INV-23"],
    seedsMax: 500,
    wrapStore: endedRunsAreBusy,
  },
  outbox_forgotten_on_acknowledgement: {
    what: "what the bus has acknowledged is not told again, although it may forget it",
    caughtBy: ["INV-20"],
    seedsMax: 500,
    wrapStore: heldJobsAreToldOnce,
  },
  letter_stays_open: {
    what: "a dead letter that was retried can be retried again",
    caughtBy: ["letters"],
    seedsMax: 500,
    table: letterStaysOpen,
  },
  reopened_past_the_limit: {
    what: "the retry of a dead letter opens a run although all slots are taken",
    caughtBy: ["INV-17"],
    seedsMax: 500,
    swarm: busyDay,
    table: reopenedPastTheLimit,
  },
  empty_results_taken_over: {
    what: "a rerun takes over that a step was done, and not what came of it",
    caughtBy: ["INV-22", "reruns"],
    seedsMax: 500,
    swarm: busyDay,
    table: emptyResultsTakenOver,
  },
  who_leaves_keeps_its_place: {
    what: "a lock is handed to somebody who has left its queue",
    caughtBy: ["queue"],
    seedsMax: 500,
    table: whoLeavesKeepsItsPlace,
  },
  silent_tickets_win: {
    what: "a lock is handed to somebody who has not been heard of for too long",
    caughtBy: ["queue"],
    seedsMax: 500,
    table: silentTicketsWin,
  },
  queue_overtaken: {
    what: "whoever asks when the lock is free gets it before those who wait",
    caughtBy: ["queue"],
    seedsMax: 500,
    table: queueOvertaken,
  },
  breaks_any_grant: {
    what: "an operator takes the lock from somebody who got it after the one that was seen",
    caughtBy: ["INV-13", "INV-15"],
    seedsMax: 500,
    table: breaksAnyGrant,
  },
  sink_does_not_compare: {
    what: "what a lock protects takes writes of whoever once held it",
    caughtBy: ["INV-12"],
    seedsMax: 500,
    sinkDoesNotCompare: true,
  },
  event_row_left_out: {
    what: "a read of events leaves one out",
    caughtBy: ["INV-17"],
    seedsMax: 500,
    wrapStore: rowLeftOut,
  },
  event_row_repeated: {
    what: "a read of events begins with the last row that was read",
    caughtBy: ["INV-17"],
    seedsMax: 500,
    wrapStore: rowRepeated,
  },
};
