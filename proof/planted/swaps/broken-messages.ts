// Buses and stores with one mistake each about messages and rows: dropped too early, counted wrongly, left out.
import type { Bus, ConsumerTerms, Handlers } from "../../../src/ports/bus.ts";
import type { Store } from "../../../src/ports/store.ts";

type Consuming = { readonly terms: ConsumerTerms; readonly handlers: Handlers };

function consuming(bus: Bus, change: (given: Consuming) => Consuming): Bus {
  return {
    ...bus,
    consume: (terms, handlers) => {
      const changed = change({ terms, handlers });
      return bus.consume(changed.terms, changed.handlers);
    },
  };
}

export function dropBeforeLetter(bus: Bus): Bus {
  return consuming(bus, ({ terms, handlers }) => ({
    terms,
    handlers: {
      ...handlers,
      giveUp: async (delivery, because) => {
        handlers.giveUp(delivery, because).catch(() => {});
      },
    },
  }));
}

export function deliverWithoutEnd(bus: Bus): Bus {
  return consuming(bus, ({ terms, handlers }) => ({
    terms: { ...terms, deliveriesMax: Number.MAX_SAFE_INTEGER },
    handlers,
  }));
}

/** As if somebody had the lock of a run that is over. */
export function endedRunsAreBusy(store: Store): Store {
  return {
    ...store,
    deliver: async (request, options) => {
      const answer = await store.deliver(request, options);
      const isOver = answer.kind === "refused" && answer.because !== "duplicate";
      if (!isOver || request.entry.kind !== "result") return answer;
      return { kind: "run_busy", instance: "somebody", freeInMs: 100, storeTimeMs: answer.storeTimeMs };
    },
  };
}

/** The outbox is emptied when the bus has acknowledged: what it forgets then is never told again. */
export function heldJobsAreToldOnce(store: Store): Store {
  return {
    ...store,
    sweep: async (request, options) => {
      const answer = await store.sweep(request, options);
      if (answer.kind !== "swept") return answer;
      return { ...answer, unclaimed: answer.unclaimed.filter(({ job }) => job.held !== true) };
    },
  };
}

export function rowLeftOut(store: Store): Store {
  return {
    ...store,
    readEvents: async (request, options) => {
      const answer = await store.readEvents(request, options);
      if (answer.kind !== "events" || answer.events.length < 3) return answer;
      return { ...answer, events: answer.events.toSpliced(1, 1) };
    },
  };
}

export function rowRepeated(store: Store): Store {
  return {
    ...store,
    readEvents: (request, options) =>
      store.readEvents({ ...request, after: Math.max(0, request.after - 1) }, options),
  };
}
