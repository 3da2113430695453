// One tenant's day compared with itself: beside a flood by another tenant (INV-5), and with wall clocks that are set back (INV-16).
import { describe, expect, test } from "vitest";
import { type Difference, simulateIsolation } from "../../proof/simulation/isolation.ts";

const timeoutMs = 120_000;
const seeds = Array.from({ length: 16 }, (_, index) => index + 1);

async function compare(difference: Difference) {
  const reports = [];
  for (const seed of seeds) reports.push(await simulateIsolation(seed, difference));
  const broken = reports.flatMap(({ report }) =>
    report.violation === undefined ? [] : [`seed ${report.seed}: ${report.violation.what}`],
  );
  const sum = (amounts: readonly number[]) => amounts.reduce((total, amount) => total + amount, 0);
  const answers = sum(reports.map((report) => report.answers));
  const foreign = sum(reports.map((report) => report.foreignAnswers));
  return { broken, answers, foreign };
}

describe("a tenant", () => {
  test(
    "is answered the same while another floods the same gateways at ten times its rate",
    async () => {
      const { broken, answers, foreign } = await compare("flood");
      expect(broken).toEqual([]);
      expect(answers).toBeGreaterThan(200);
      expect(foreign).toBeGreaterThan(5 * answers);
    },
    timeoutMs,
  );

  test(
    "is answered the same while wall clocks are set back",
    async () => {
      const { broken, answers } = await compare("wall_clocks");
      expect(broken).toEqual([]);
      expect(answers).toBeGreaterThan(200);
    },
    timeoutMs,
  );

  test(
    "has the same day whenever it is simulated",
    async () => {
      const [first, second] = [await simulateIsolation(4, "flood"), await simulateIsolation(4, "flood")];
      expect(second.report.hash).toBe(first.report.hash);
    },
    timeoutMs,
  );
});
