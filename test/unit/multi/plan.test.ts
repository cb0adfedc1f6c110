import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/lock/decide.ts';
import { lockLimits } from '../../../src/lock/limits.ts';
import { unusedLock } from '../../../src/lock/state.ts';
import { planAll } from '../../../src/multi/plan.ts';
import { acquireOf, startOfTime } from '../../support/lock-worlds.ts';

const facts = { now: startOfTime, graceMs: lockLimits.graceMs };
const mine = acquireOf('lease-mine-0000000');
const held = decide(unusedLock, mine, facts).next;
const part = (name: string, state = unusedLock) => ({ name, state, command: mine });

describe('planAll', () => {
  it('writes every lock that it grants', () => {
    expect(planAll([part('a'), part('b')], facts)).toMatchObject({
      kind: 'granted',
      swaps: [
        { name: 'a', next: { rev: 1 } },
        { name: 'b', next: { rev: 1 } },
      ],
    });
  });

  it('writes what is already held along with what is granted, so that the step fails where it was lost in between', () => {
    const plan = planAll([part('a', held), part('b')], facts);
    expect(plan).toMatchObject({ kind: 'granted', swaps: [{ name: 'a', next: { rev: held.rev + 1 } }, { name: 'b' }] });
    const [kept] = plan.kind === 'granted' ? plan.swaps : [];
    expect(kept?.next).toEqual({ ...held, rev: held.rev + 1, changedAt: startOfTime });
  });

  it('writes nothing where all are held already', () => {
    expect(planAll([part('a', held), part('b', held)], facts)).toMatchObject({ kind: 'granted', swaps: [] });
  });

  it('writes nothing where one is refused, and names it', () => {
    const theirs = decide(unusedLock, acquireOf('lease-theirs-00000'), facts).next;
    const plan = planAll([part('a'), part('b', theirs)], facts);
    expect(plan).toMatchObject({ kind: 'refused', refusals: [{ name: 'b', answer: { kind: 'held' } }] });
    expect(plan).not.toHaveProperty('swaps');
  });
});
