// Places of running jobs: the sets that limits are counted by hold exactly the jobs that run, and no claim goes past a limit.
import type { JobState } from "../../../src/adapters/operations/records.ts";
import { hasLimits, poolLimits, topicLimits } from "../../../src/domain/job.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import type { ChangeOf, JournaledRecords } from "./journaled-records.ts";
import type { KnownState } from "./known-state.ts";

/** One topic or pool: the jobs that run, by the changes of the jobs themselves. */
type LimitedSet = { readonly running: Set<string>; readonly max: () => number | undefined };

export class PlaceChecks {
  readonly #known: KnownState;
  readonly #records: JournaledRecords;
  readonly #marks: Marks;
  readonly #places = new Map<string, LimitedSet>();
  /** Places changed by the operation under way, and whether a claim was among the changes. */
  readonly #touched = new Map<string, { claimed: boolean }>();

  constructor(known: KnownState, records: JournaledRecords, marks: Marks) {
    this.#known = known;
    this.#records = records;
    this.#marks = marks;
  }

  judge({ name }: StoreExecution, { before, after, scope, member }: ChangeOf<"job">): void {
    const tenant = scope.slice(0, scope.indexOf("/")) as TenantId;
    const claimed = name !== "heartbeatJobs" && isRunning(after) && !isRunning(before);
    if (claimed) {
      const counts = after?.claim?.pool !== undefined || !hasLimits(this.#known.tenant(tenant).settings);
      mustHold(counts, "places", () => `${member} was claimed and is not counted`);
    }
    for (const place of this.#placesOf(tenant, before)) {
      this.#places.get(place)?.running.delete(member);
      this.#touch(place, false);
    }
    for (const place of this.#placesOf(tenant, after)) {
      this.#places.get(place)?.running.add(member);
      this.#touch(place, claimed);
    }
  }

  /** Once all changes of an operation are known. */
  check({ name, outcome }: StoreExecution): void {
    if (name === "claimJobs" && outcome.kind === "judged") {
      const isFull = outcome.answers.some(
        (answer) => answer.kind === "refused" && /_full$/.test(answer.because),
      );
      if (isFull) this.#marks.hit("place_refused");
    }
    for (const [scope, { claimed }] of this.#touched) {
      const { running = new Set(), max = () => undefined } = this.#places.get(scope) ?? {};
      const stored = this.#records.scan("running", scope, "", 10_000).map(({ member }) => member);
      mustHold(
        stored.length === running.size && stored.every((jobId) => running.has(jobId)),
        "places",
        () => `${name} left ${stored.join(", ")} in ${scope}; ${[...running].join(", ")} run`,
      );
      const limit = max();
      mustHold(
        !claimed || limit === undefined || running.size <= limit,
        "places",
        () => `${name} claimed past the limit ${limit} of ${scope}: ${[...running].join(", ")}`,
      );
    }
    this.#touched.clear();
  }

  #touch(place: string, claimed: boolean): void {
    this.#touched.set(place, { claimed: claimed || this.#touched.get(place)?.claimed === true });
  }

  #placesOf(tenant: TenantId, job: JobState | undefined): readonly string[] {
    const pool = job?.claim?.pool;
    if (job === undefined || !isRunning(job) || pool === undefined) return [];
    const settings = () => this.#known.tenant(tenant).settings;
    const { topic } = job;
    return [
      this.#placeAt(`${tenant}/topic/${topic}`, () => topicLimits(settings(), topic)?.maxRunning),
      this.#placeAt(`${tenant}/pool/${pool}`, () => poolLimits(settings(), pool)?.maxRunning),
    ];
  }

  #placeAt(scope: string, max: LimitedSet["max"]): string {
    if (!this.#places.has(scope)) this.#places.set(scope, { running: new Set(), max });
    return scope;
  }
}

function isRunning(job: JobState | undefined): boolean {
  return job?.state === "claimed";
}
