/** Which locks each session holds and waits for, and which waits form a circle. */
import type { LockBook } from './book.ts';
import type { Happening } from './events.ts';
import type { LockPicture } from './lock-picture.ts';

/** A session that holds or waits. Without a session, all callers with the same owner count as one. */
export interface Party {
  readonly id: string;
  readonly owner: string;
  readonly sessionId?: string | undefined;
  readonly holds: readonly { readonly lock: string; readonly fence: number; readonly since: number }[];
  readonly waits: readonly { readonly lock: string; readonly position: number; readonly since: number }[];
}

export interface Step extends Pick<Party, 'owner' | 'sessionId'> {
  readonly party: string;
  /** The party of the next step holds it. */
  readonly waitsFor: string;
}

export interface Cycle {
  readonly steps: readonly Step[];
  /** When the service resolved it by ending one of the waits. Undefined if it still exists. */
  readonly brokenAt?: number;
}

type Caller = Pick<Party, 'owner' | 'sessionId'>;

type Draft = { -readonly [K in keyof Party]: Party[K] extends readonly (infer T)[] ? T[] : Party[K] };

/** An event does not contain the session. If the owner holds under exactly one session, it is assumed to be that one. */
function sessionsByOwner(locks: readonly LockPicture[]): Map<string, string | null> {
  const found = new Map<string, string | null>();
  for (const { owner, sessionId } of locks.flatMap(({ holders, queue }): readonly Caller[] => [...holders, ...queue])) {
    if (!sessionId) continue;
    const other = found.get(owner);
    found.set(owner, other === undefined || other === sessionId ? sessionId : null);
  }
  return found;
}

export function partiesOf(book: LockBook): Map<string, Party> {
  const locks = book.all();
  const sessions = sessionsByOwner(locks);
  const parties = new Map<string, Draft>();
  const draftOf = ({ owner, sessionId: own }: Caller): Draft => {
    const sessionId = own ?? sessions.get(owner) ?? undefined;
    const id = sessionId ? `session ${sessionId}` : `owner ${owner}`;
    const known = parties.get(id);
    if (known) return known;
    const draft: Draft = { id, owner, holds: [], waits: [], sessionId };
    parties.set(id, draft);
    return draft;
  };
  for (const { lock, holders, queue } of locks) {
    for (const holder of holders) draftOf(holder).holds.push({ lock, fence: holder.fence, since: holder.since });
    for (const [index, waiter] of queue.entries()) {
      draftOf(waiter).waits.push({ lock, position: index + 1, since: waiter.since });
    }
  }
  return parties;
}

/** People read cycles one by one. More than this many belong to one large deadlock. */
const cyclesMax = 10;
/** The service itself has the same limit. */
const stepsMax = 50;

/** Every circle of parties that wait for each other, once. */
export function cyclesOf(parties: ReadonlyMap<string, Party>): Cycle[] {
  const holdersOf = new Map<string, Party[]>();
  for (const party of parties.values()) {
    for (const { lock } of party.holds) holdersOf.set(lock, [...(holdersOf.get(lock) ?? []), party]);
  }
  const cycles = new Map<string, Cycle>();
  const done = new Set<string>();
  const follow = (party: Party, path: Step[], onPath: Set<string>): void => {
    if (cycles.size >= cyclesMax || path.length >= stepsMax) return;
    for (const { lock } of party.waits) {
      const holders = holdersOf.get(lock) ?? [];
      // If a party holds the lock that it waits for, it is several workers. The worker that holds the lock goes on.
      if (holders.includes(party)) continue;
      const { id, owner, sessionId } = party;
      const step = { party: id, owner, waitsFor: lock, sessionId };
      for (const holder of holders) {
        const back = [...path, step];
        const at = back.findIndex((one) => one.party === holder.id);
        if (at >= 0) remember(cycles, back.slice(at));
        else if (!done.has(holder.id) && !onPath.has(holder.id)) {
          follow(holder, back, new Set([...onPath, holder.id]));
        }
      }
    }
    done.add(party.id);
  };
  for (const party of parties.values()) if (party.waits.length) follow(party, [], new Set([party.id]));
  return [...cycles.values()];
}

/** The same circle may be found from any of its steps. */
function remember(cycles: Map<string, Cycle>, steps: Step[]): void {
  const first = steps.reduce((least, step, index) => (step.party < (steps[least] as Step).party ? index : least), 0);
  const turned = [...steps.slice(first), ...steps.slice(0, first)];
  cycles.set(turned.map(({ party, waitsFor }) => `${party} ${waitsFor}`).join('\n'), { steps: turned });
}

/** The circle that the service has just resolved: the waits that are still there, and the wait that it ended. */
export function brokenCycleOf(book: LockBook, { lock, owner, at, type, reason }: Happening): Cycle | undefined {
  if (type !== 'wait-cancelled' || reason !== 'deadlock') return undefined;
  const parties = partiesOf(book);
  const victim = [...parties.values()].find((party) => party.owner === owner && party.holds.length);
  if (!victim) return undefined;
  const waiting = { ...victim, waits: [...victim.waits, { lock, position: 1, since: at }] };
  const found = cyclesOf(new Map([...parties, [victim.id, waiting]])).find(({ steps }) =>
    steps.some((step) => step.party === victim.id && step.waitsFor === lock),
  );
  return found && { ...found, brokenAt: at };
}
