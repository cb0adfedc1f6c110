import { describe, expect, it } from 'vitest';
import { Given } from '../../../src/cli/arguments.ts';
import { readIfHeld, unlessHeld } from '../../../src/cli/if-held.ts';
import { LockHeldError, UnavailableError } from '../../../src/client/index.ts';

const read = (text?: string) =>
  readIfHeld(new Given([], new Map(text === undefined ? [] : [['if-held', text]]), new Map(), []));

describe('--if-held', () => {
  it.each([
    [undefined, undefined],
    ['fail', undefined],
    ['skip', 0],
    ['0', 0],
    ['255', 255],
  ])('%s means the exit code %s', (text, code) => {
    expect(read(text)).toBe(code);
  });

  it.each(['256', '-1', '1.5', 'never', ''])('refuses %j', (text) => {
    expect(() => read(text)).toThrow(`--if-held expects skip, fail or an exit code from 0 to 255, but got '${text}'.`);
  });

  it('is about a held lock, and hides no other failure', async () => {
    const held = new LockHeldError('held');
    const away = new UnavailableError('away');
    const failing = (error: Error) => () => Promise.reject(error);
    expect(await unlessHeld(3, failing(held))).toBe(3);
    expect(await unlessHeld(3, async () => 7)).toBe(7);
    await expect(unlessHeld(undefined, failing(held))).rejects.toBe(held);
    await expect(unlessHeld(3, failing(away))).rejects.toBe(away);
    const other = new TypeError('a bug');
    await expect(unlessHeld(3, failing(other))).rejects.toBe(other);
  });
});
