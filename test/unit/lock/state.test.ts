import { describe, expect, it } from 'vitest';
import { isAlwaysNotified, lockIdOf, type Notify } from '../../../src/lock/state.ts';

describe('isAlwaysNotified', () => {
  it.each<[boolean, Notify]>([
    [true, { type: 'task-token', token: 'token', always: true }],
    [true, { type: 'durable-callback', id: 'id', always: true }],
    [false, { type: 'task-token', token: 'token', always: false }],
    [false, { type: 'task-token', token: 'token' }],
    [false, { type: 'websocket', connectionId: 'one' }],
  ])('is %s for %o', (isAlways, notify) => {
    expect(isAlwaysNotified({ notify })).toBe(isAlways);
  });

  it('is false for a claim that nobody is told of', () => {
    expect(isAlwaysNotified({})).toBe(false);
  });
});

describe('lockIdOf', () => {
  it('names a lock by its namespace and its name', () => {
    expect(lockIdOf({ namespace: 'shop', name: 'order:7' })).toBe('shop/order:7');
  });
});
