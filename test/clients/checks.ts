/** What must hold in every run, whatever was done to the network and to the client. */
import type { Line } from './client-process.ts';
import type { Exchange } from './proxy.ts';

/** What somebody has seen of one run. */
export interface Seen {
  readonly exchanges: readonly Exchange[];
  readonly lines: readonly Line[];
  readonly printed: string;
  /** The lock that each id was asked for. */
  readonly locks: ReadonlyMap<string, string>;
}

/** Every finding of every check. Empty if the client kept all rules. */
export const findings = (seen: Seen): string[] => [
  ...beliefsPastTheEnd(seen),
  ...effects(seen),
  ...leases(seen),
  ...places(seen),
  ...secrets(seen),
];

interface Effect {
  readonly at: number;
  readonly until: number;
}

const isRefused = ({ status }: { status: number }) => status >= 400;

/** When the lease on a lock truly ends, as the service said it over time. */
function effectsOn(exchanges: readonly Exchange[], lock: string, fence: number): Effect[] {
  const own = exchanges.filter((one) => one.lock === lock);
  const leaseIds = new Set(
    own.filter(({ upstream }) => upstream.some(({ body }) => body.fence === fence)).map(({ leaseId }) => leaseId),
  );
  return own
    .filter(({ leaseId }) => leaseIds.has(leaseId))
    .flatMap(({ action, upstream }) =>
      upstream.flatMap((answer): Effect[] => {
        if (action === 'release' && answer.body.released === true) return [{ at: answer.at, until: answer.at }];
        const { status, expiresAt } = answer.body;
        return status === 'granted' ? [{ at: answer.at, until: Date.parse(String(expiresAt)) }] : [];
      }),
    )
    .sort((one, other) => one.at - other.at);
}

/** Nobody may believe to hold a lock after its lease has ended on the service. */
function beliefsPastTheEnd({ exchanges, lines, locks }: Seen): string[] {
  const found = new Map<string, string>();
  for (const { id, is, at, fence = 0 } of lines) {
    if (is !== 'working') continue;
    const effects = effectsOn(exchanges, locks.get(id) ?? '', fence);
    const known = effects.findLast((effect) => effect.at <= at) ?? effects[0];
    if (known === undefined) found.set(id, `${id} works with fence ${fence}, which was never granted`);
    else if (at > known.until)
      found.set(id, `${id} works ${Math.round(at - known.until)} ms after its lease has ended`);
  }
  return [...found.values()];
}

/** A lease id has one fence, however often its request arrives. */
function effects({ exchanges }: Seen): string[] {
  const fences = new Map<string, Set<unknown>>();
  for (const { leaseId, upstream } of exchanges)
    for (const { body } of upstream)
      if (body.status === 'granted')
        fences.set(leaseId, (fences.get(leaseId) ?? new Set()).add(JSON.stringify(body.grants ?? body.fence)));
  return [...fences.values()].filter((all) => all.size > 1).map((all) => `one lease id got ${all.size} fences`);
}

/** All tries for a lock use one lease id. Only after a refusal may there be another one. */
function leases({ exchanges }: Seen): string[] {
  const found: string[] = [];
  for (const lock of new Set(exchanges.map((one) => one.lock).filter((name) => name !== ''))) {
    const acquires = exchanges.filter((one) => one.lock === lock && one.action === 'acquire');
    const ids = new Set(acquires.map(({ leaseId }) => leaseId));
    const over = acquires.filter(({ upstream }) => upstream.some(isRefused)).length;
    if (ids.has('')) found.push(`${lock} was asked for without a lease id of the caller`);
    if (ids.size > 1 + over) found.push(`${lock} was asked for with ${ids.size} lease ids`);
  }
  return found;
}

/** The service may believe `place: "new"`, so only the very first request of a lease may say it. */
function places({ exchanges }: Seen): string[] {
  const asked = new Set<string>();
  const found: string[] = [];
  for (const { action, leaseId, body } of exchanges) {
    if (action !== 'acquire') continue;
    if (body.place === 'new' && asked.has(leaseId))
      found.push('a request says place: "new" for a lease id that was sent before');
    asked.add(leaseId);
  }
  return [...new Set(found)];
}

/** Whoever knows a lease id may act for its owner, so nothing that is printed contains one. */
function secrets({ exchanges, printed, lines }: Seen): string[] {
  const told = printed + JSON.stringify(lines);
  const known = new Set(exchanges.map(({ leaseId }) => leaseId).filter((id) => id !== ''));
  return [...known].some((secret) => told.includes(secret)) ? ['a lease id is in what was printed'] : [];
}
