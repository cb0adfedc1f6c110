import { describe, expect, it } from 'vitest';
import { digestOf, leaseNameOf } from '../../../src/table/digest.ts';

describe('the name of a secret', () => {
  it('is made of its digest, and stays the same, because items are found by it', () => {
    expect(digestOf('lease-0000000000')).toBe('DnlHsjWOUijPo63M6gvqsDpGX5E');
    expect(leaseNameOf('lease-0000000000')).toBe('DnlHsjWOUij');
  });
});
