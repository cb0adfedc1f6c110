import { expect, it } from 'vitest';
import { publicSessionId } from '../../../src/session/public-id.ts';

it('the public form of a session tells sessions apart, and shows nothing of the id', () => {
  const ids = Array.from({ length: 10_000 }, (_, index) => `session-${index}`);
  const shown = ids.map(publicSessionId);
  expect(new Set(shown).size).toBe(ids.length);
  for (const each of shown) expect(each).toMatch(/^[0-9a-f]{12}$/);
});
