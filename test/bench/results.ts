/** The results of a run, as in the JSON file. Times are only ratios, and everything else is a count. */

export interface Machine {
  readonly cores: number;
  readonly memoryGb: number;
  readonly os: string;
  readonly node: string;
}

export interface StoreEntry {
  readonly id: string;
  readonly name: string;
  readonly durability: string;
}

export interface ContestantEntry {
  readonly id: string;
  readonly name: string;
  readonly store: string;
  readonly ours: boolean;
  readonly how: string;
  /** The version of its package, if it has one. */
  readonly version: string | null;
}

/** What is missing, in a sentence. */
export interface Absence {
  readonly why: string;
}

/** A cycle of one client against two single writes of the same store. */
export interface CycleRow {
  readonly contestant: string;
  readonly p50: number;
  readonly p99: number;
  readonly samples: number;
}

export interface ThroughputRow {
  readonly contestant: string;
  readonly clients: number;
  /** Acquires and releases, divided by the single writes of as many clients. */
  readonly againstWrites: number;
  /** The same, divided by the single writes of one client. This rises with the number of clients. */
  readonly againstOneWriter: number;
  readonly cycles: number;
}

export interface HandOffRow {
  readonly contestant: string;
  readonly waiters: number;
  /** From release to grant, in single writes. Null if there was no hand-off. */
  readonly p50: number | null;
  readonly p99: number | null;
  /** Hand-offs timed one by one. */
  readonly samples: number;
  /** Grants to a waiter that had not waited longest. */
  readonly inversions: number;
  /** Hand-offs in the time of a single write, if every holder releases at once. Null if so many could not wait. */
  readonly rate: number | null;
  readonly rateSamples: number;
  /** Releases that failed in this time. */
  readonly failed: number;
}

export interface HandOffRequestsRow {
  readonly contestant: string;
  readonly waiters: number;
  readonly perHandOff: number;
  /** Requests above the smallest number for a join, a grant and a release. */
  readonly wasted: number;
  /** Units of DynamoDB. Null for other stores. */
  readonly writeUnits: number | null;
  readonly readUnits: number | null;
  readonly samples: number;
}

export interface CycleRequestsRow {
  readonly contestant: string;
  readonly reads: number;
  readonly writes: number;
  readonly readUnits: number;
  readonly writeUnits: number;
  /** For history and similar items, which only the service writes. */
  readonly newsReadUnits: number;
  readonly newsWriteUnits: number;
}

export interface CrashRow {
  readonly contestant: string;
  /** Null if only the connection counts. */
  readonly leaseMs: number | null;
  /** From the last action of the holder to the next grant, in leases. If there is no lease, in single writes. */
  readonly after: number;
  readonly samples: number;
}

export interface RenewalRow {
  readonly who: string;
  readonly perInterval: number;
}

export interface StampedeRow {
  readonly who: string;
  readonly requests: number;
  /** The time until the last of them had its answer, in single writes. */
  readonly writes: number;
}

export interface MultiLockRow {
  readonly contestant: string;
  readonly locks: number;
  readonly atOnce: boolean;
  /** A cycle of all of them, in single writes. */
  readonly writes: number;
  readonly requests: number | null;
  readonly samples: number;
}

export interface IncrementRow {
  readonly clients: number;
  readonly way: 'cas' | 'lock';
  /** Increments in the time of a single write. */
  readonly rate: number;
  readonly requestsPerIncrement: number;
  readonly samples: number;
}

export interface MemoryRow {
  readonly cycles: number;
  /** Resident memory at the end, divided by that after the warm-up. */
  readonly growth: number;
}

export interface ImportRow {
  /** Compared with an import of only the DynamoDB client. */
  readonly ratio: number;
  readonly kilobytes: number;
}

/** From release to grant, in single writes. */
export interface PushHandOffRow {
  readonly way: 'push' | 'long poll';
  readonly waiters: number;
  readonly p50: number;
  readonly p99: number;
  readonly samples: number;
}

/** Waiters through the SDK, while nothing is released. Everything is counted per waiter and minute, after all are parked. */
export interface WaitingRow {
  readonly way: 'push' | 'long poll';
  readonly waiters: number;
  /** Requests that are open at the service at any time. */
  readonly open: number;
  /** Without the requests that ask about parked waits. */
  readonly requestsPerMinute: number;
  readonly looksPerMinute: number;
  readonly writeUnitsPerMinute: number;
  readonly readUnitsPerMinute: number;
}

/** Waits on one connection. */
export interface CrowdRow {
  readonly waits: number;
  /** Messages of grants. */
  readonly told: number;
  /** How many of them repeat another one. */
  readonly unexpected: number;
  /** Grants in the order of the queue. */
  readonly inOrder: number;
}

export interface PushResults {
  readonly handOff: readonly PushHandOffRow[];
  readonly waiting: readonly WaitingRow[];
  readonly crowd: CrowdRow;
}

export interface Results {
  readonly date: string;
  readonly commit: string;
  readonly quick: boolean;
  readonly machine: Machine;
  readonly stores: readonly StoreEntry[];
  readonly contestants: readonly ContestantEntry[];
  readonly absent: readonly Absence[];
  readonly cycle: readonly CycleRow[];
  readonly throughput: readonly ThroughputRow[];
  readonly handOff: readonly HandOffRow[];
  readonly handOffRequests: readonly HandOffRequestsRow[];
  readonly cycleRequests: readonly CycleRequestsRow[];
  readonly crash: readonly CrashRow[];
  readonly renewals: readonly RenewalRow[];
  readonly stampede: readonly StampedeRow[];
  readonly multiLock: readonly MultiLockRow[];
  readonly increment: readonly IncrementRow[];
  /** With the date and commit of its own run, if it was run alone. */
  /** Contestants whose hand-offs are newer than the rest. */
  readonly measuredAgain?: readonly { readonly contestant: string; readonly date: string; readonly commit: string }[];
  readonly push: (PushResults & { readonly date: string; readonly commit: string }) | null;
  readonly memory: MemoryRow | null;
  readonly imports: ImportRow | null;
}
