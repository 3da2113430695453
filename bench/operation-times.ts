// How long operations hold a store, by their names: the longest time of each, and how often it was over the budget.

/** No operation may hold the store for longer. */
export const budgetUs = 2_000;

export type Times = { readonly slowestUs: number; readonly overBudget: number };
export type OperationTimes = ReadonlyMap<string, Times>;

export function addTime(times: Map<string, Times>, name: string, us: number): void {
  const { slowestUs = 0, overBudget = 0 } = times.get(name) ?? {};
  times.set(name, {
    slowestUs: Math.max(slowestUs, us),
    overBudget: overBudget + (us > budgetUs ? 1 : 0),
  });
}

/** Where the thread of the SQLite store tells its times: those over the budget, and every new longest one of its name. */
export const timesChannel = "interlock-bench-operation-times";

export type ToldTime = { readonly name: string; readonly us: number };

/** The name of a whole transaction: its operations, the rows that they changed, and the commit with its fsync. */
export const transaction = "transaction";
