// Who is behind a key, and whether two of them are so far apart that one may approve what the other asked for.

/** A named person or service, with the owners of the keys through which its key was made, the maker first. */
export type Person = {
  readonly owner: string;
  readonly lineage: readonly string[];
};

/** Longer chains are refused, not cut: a person cut from the chain could approve what the last key requests. */
export const lineageMax = 32;

type DutyVerdict = { readonly kind: "allowed" } | { readonly kind: "refused"; readonly rule: DutyRule };

export type DutyRule = "same_owner" | "made_by_requester" | "made_by_approver";

/** Two keys that a third person made may decide about each other's runs: the audit row names who that was. */
export function mayDecide(requester: Person, approver: Person): DutyVerdict {
  if (isSame(requester.owner, approver.owner)) return { kind: "refused", rule: "same_owner" };
  const has = ({ lineage }: Person, owner: string) => lineage.some((maker) => isSame(maker, owner));
  if (has(approver, requester.owner)) return { kind: "refused", rule: "made_by_requester" };
  if (has(requester, approver.owner)) return { kind: "refused", rule: "made_by_approver" };
  return { kind: "allowed" };
}

/** The lineage of a key that this person makes, or undefined when it would be too long. */
export function lineageBelow({ owner, lineage }: Person): readonly string[] | undefined {
  const makers = [owner, ...lineage.filter((each) => !isSame(each, owner))];
  return makers.length > lineageMax ? undefined : makers;
}

/** Ada and ada are one person: names that people take for the same must not pass for two. */
function isSame(one: string, other: string): boolean {
  return plainName(one) === plainName(other);
}

function plainName(name: string): string {
  return name.normalize("NFKC").trim().replaceAll(/\s+/g, " ").toLowerCase();
}
