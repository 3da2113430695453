// Looks into the store for jobs that workers of this process wait for, when hints may have passed it by.
import type { Engine } from "../engine/engine.ts";
import { claimMatches } from "./claim-matches.ts";
import { discoverJobs } from "./discover-jobs.ts";
import type { Offer } from "./offer.ts";

/** Gives a function that looks in the background: one look at a time, and one more if it was called meanwhile. */
export function createJobSearch(engine: Engine): () => void {
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
