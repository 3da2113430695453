// How the thread of the SQLite store tells a benchmark what its operations take.

/** Where the times are told: each is longer than all before it under its name. */
export const timesChannel = "interlock-bench-operation-times";

export type OperationTime = { readonly name: string; readonly us: number };

/** The name of a whole transaction: its operations, the rows that they changed, and the commit with its fsync. */
export const transaction = "transaction";
