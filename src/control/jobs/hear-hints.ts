// Hears the hints of other processes, and looks into the store for what no hint has named.
import { fitsRequirements } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Consumer } from "../../ports/bus.ts";
import type { Engine } from "../engine/engine.ts";
import { claimMatches, discoverJobs, learnReady } from "./claim-jobs.ts";
import { type HintMessage, hasUnnamed, namedIn } from "./hints.ts";
import type { Offer } from "./offers.ts";

/** What the hints of one topic that arrive together have said. */
type Heard = {
  /** What is required by jobs that wait and were not named. */
  readonly unnamed: Set<string | undefined>;
  readonly claimed: Promise<unknown>;
};

export function hearHints(engine: Engine): Consumer {
  const hearing = new Map<string, Heard>();
  const { offers, ports } = engine;

  /** Hints that arrive while a claim is on its way share the next one. */
  function hear(tenant: TenantId, topic: string): Heard {
    const key = `${tenant} ${topic}`;
    const known = hearing.get(key);
    if (known !== undefined) return known;
    const unnamed = new Set<string | undefined>();
    const claimed = Promise.resolve().then(async () => {
      hearing.delete(key);
      for (const requires of unnamed) await claimUnnamed(engine, tenant, { topic, requires });
      return claimMatches(engine, tenant, [topic]);
    });
    const heard = { unnamed, claimed };
    hearing.set(key, heard);
    return heard;
  }

  return engine.bus.consume(
    {
      stream: "hints",
      name: `offers-${ports.instance}`,
      ackWaitMs: 30_000,
      deliveriesMax: 10,
      pendingMax: 1_024,
    },
    {
      async handle({ body }) {
        const message = JSON.parse(body) as HintMessage;
        const { tenant, hint, from } = message;
        // Said by this process, whose workers came first.
        if (from === ports.instance) return { kind: "done" };
        for (const named of namedIn(message)) offers.learn(tenant, named);
        const heard = hear(tenant, hint.topic);
        if (hasUnnamed(message)) heard.unnamed.add(hint.requires);
        await heard.claimed;
        return { kind: "done" };
      },
      // A hint is only a hint: the store still knows the job, and the sweep names it again.
      giveUp: async () => {},
      // The next worker of such a topic looks into the store, also behind jobs that are remembered and gone.
      passesOver: (tenant, topic) => !offers.serves(tenant as TenantId, topic),
      missed: createJobSearch(engine),
    },
  );
}

/** Jobs that no hint has named: they are looked for while workers that can do them have free places. */
async function claimUnnamed(
  engine: Engine,
  tenant: TenantId,
  { topic, requires }: { readonly topic: string; readonly requires: string | undefined },
): Promise<void> {
  for (;;) {
    const idle = engine.offers
      .waiting(tenant, topic)
      .filter((offer) => offer.free() > 0 && fitsRequirements(requires, offer));
    const [offer] = idle;
    if (offer === undefined) return;
    const places = idle.reduce((sum, each) => sum + each.free(), 0);
    const learnt = await learnReady(engine, offer, { topic, places });
    if (learnt.kind !== "found" || !learnt.isFull) return;
    if ((await claimMatches(engine, tenant, [topic])).granted === 0) return;
  }
}

/** Gives a function that looks in the background: one look at a time, and one more if it was called meanwhile. */
function createJobSearch(engine: Engine): () => void {
  let looking = false;
  let again = false;

  async function look(): Promise<void> {
    for (const { tenant, topics, offer } of wanted(engine.offers.all())) {
      const found = await discoverJobs(engine, offer);
      if (found.kind === "found") await claimMatches(engine, tenant, topics);
    }
  }

  const search = () => {
    if (looking) {
      again = true;
      return;
    }
    looking = true;
    engine.background.run("looking for jobs", async () => {
      try {
        await look();
      } finally {
        looking = false;
        if (again) {
          again = false;
          search();
        }
      }
    });
  };
  return search;
}

/** A thousand workers that wait for the same are one question. */
function wanted(offers: readonly Offer[]) {
  const questions = new Map<string, Pick<Offer, "tenant" | "topics"> & { readonly offer: Offer }>();
  for (const offer of offers) {
    const { tenant, topics, labels, capabilities } = offer;
    if (offer.free() > 0)
      questions.set(JSON.stringify([tenant, topics, labels, capabilities]), { tenant, topics, offer });
  }
  return questions.values();
}
