// The peers benchmark promises its numbers by name, and floors can be measured in any tree of the repository, or it is said why not.
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { floorsOfGroup } from "../../bench/earlier-floors.ts";
import { openEarlierTree } from "../../bench/earlier-tree.ts";
import { nodeVersions, otherNode } from "../../bench/node-choice.ts";
import { parseBenchOptions } from "../../bench/options.ts";
import { runForNumbers } from "../../bench/peer-process.ts";
import { dbosVariants } from "../../bench/peers-dbos.ts";
import { bullmqVariant, ourVariants } from "../../bench/peers-ours.ts";
import { restateVariants } from "../../bench/peers-restate.ts";

const root = dirname(dirname(import.meta.dirname));

test("every peer and every way to run ours has a rate and a time of its own name, and says what it keeps", () => {
  const variants = [...restateVariants, ...dbosVariants, bullmqVariant("full"), ...ourVariants("full")];
  const names = variants.flatMap(({ name, fields }) =>
    Object.keys(fields).map((field) => `${name}.${field}`),
  );
  const promised = [
    "peer.restate",
    "peer.dbos",
    "peer.bullmq",
    "runs.served.embedded",
    "runs.served.cluster",
  ];
  expect(names).toEqual(
    expect.arrayContaining(
      promised.flatMap((each) => [`${each}.three_step.per_s`, `${each}.three_step.p50_ms`]),
    ),
  );
  expect(new Set(names).size).toBe(names.length);
  expect(variants.filter(({ onDisk, timeline }) => onDisk === "" || timeline === "")).toEqual([]);
});

test("a commit that this clone does not have is named with the reason", async () => {
  const tree = await openEarlierTree("0123456789abcdef");
  expect(tree).toEqual({
    kind: "absent",
    reason: expect.stringContaining("does not have commit 0123456789"),
  });
});

test.each(["http", "stores"] as const)(
  "floors of the group %s are measured in a process of their own, by the tree's own programs",
  async (group) => {
    const program = join(root, "bench/floor-program.ts");
    const rates = await runForNumbers(["--import", "tsx", program, root, group, "100"]);
    expect(Object.keys(rates).sort()).toEqual([...floorsOfGroup[group]].sort());
    expect(Object.values(rates).filter((rate) => !(rate > 0))).toEqual([]);
  },
);

test("every benchmark takes a Node by the beginning of its version, and no other", async () => {
  const parsed = parseBenchOptions("runs", ["--node", "26"]);
  expect(parsed).toMatchObject({ kind: "run", options: { node: "26" } });
  await expect(otherNode("18")).rejects.toThrow(nodeVersions.join(", "));
  expect(await otherNode(undefined)).toBeUndefined();
});
