// Something outside of the product that locks protect: a set per resource, which only the newest holder may read and write.
import type { Kernel } from "../../../src/testing/kernel.ts";
import type { SimulatedProcess } from "../../../src/testing/simulated-process.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";

export type FencedAccess = { readonly resource: string; readonly token: string; readonly fence: number };

type Kept = { fence: number; token: string; elements: readonly string[] };

export class FencedSink {
  readonly process: SimulatedProcess;
  readonly #marks: Marks;
  readonly #compares: boolean;
  readonly #kept = new Map<string, Kept>();

  constructor(kernel: Kernel, marks: Marks, { compares }: { readonly compares: boolean }) {
    this.process = kernel.process("sink");
    this.#marks = marks;
    this.#compares = compares;
  }

  /** A reader that will write later shows its fence: from then on an older one is refused. */
  read(access: FencedAccess): readonly string[] | "superseded" {
    const kept = this.#admit(access);
    return kept === "superseded" ? kept : kept.elements;
  }

  /** INV-12: what was accepted once is in every set that is accepted later. */
  write(access: FencedAccess, elements: readonly string[]): "accepted" | "superseded" {
    const kept = this.#admit(access);
    if (kept === "superseded") return kept;
    const lost = kept.elements.filter((element) => !elements.includes(element));
    mustHold(
      lost.length === 0,
      "INV-12",
      () => `${access.resource}: ${lost.join(", ")} lost by a write with fence ${access.fence}`,
    );
    kept.elements = elements;
    return "accepted";
  }

  #admit({ resource, token, fence }: FencedAccess): Kept | "superseded" {
    const kept = this.#kept.get(resource) ?? { fence: 0, token: "", elements: [] };
    this.#kept.set(resource, kept);
    const isOlder = fence < kept.fence || (fence === kept.fence && token !== kept.token);
    if (this.#compares && isOlder) {
      this.#marks.hit("sink_refused_stale");
      return "superseded";
    }
    if (!isOlder) Object.assign(kept, { fence, token });
    return kept;
  }
}
