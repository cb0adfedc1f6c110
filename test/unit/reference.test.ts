import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { referencePages } from '../support/reference/main.ts';

describe('the reference', () => {
  it.each(Object.entries(referencePages))(
    '%s says what the sources say; npm run docs:reference writes it',
    (page, made) => {
      expect(readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')).toBe(made());
    },
  );

  it('has every export with a sentence about it', () => {
    const sections = (referencePages['docs/reference/sdk.md']?.() ?? '').split(/\n### /).slice(1);
    expect(sections.length).toBeGreaterThan(100);
    for (const name of [
      'Holdfast',
      'LeaseLostError',
      'AcquireOptions',
      'ClientEvent',
      'Twin',
      'LockService',
      'holdfastLock',
    ])
      expect(
        sections.some((section) => section.startsWith(`${name}\n`)),
        name,
      ).toBe(true);
  });
});
