import { describe, expect, it } from 'vitest';
import { SortedList } from '../../../src/tools/sorted-list.ts';

describe('SortedList', () => {
  const listOf = (...members: [number, string][]) => {
    const list = new SortedList<[number, string]>(([one], [other]) => one - other);
    for (const member of members) list.put(member);
    return list;
  };

  it('keeps its members in order, and replaces one that is equal', () => {
    const list = listOf([5, 'five'], [1, 'one'], [3, 'three'], [9, 'nine'], [3, 'again'], [7, 'seven'], [9, 'last']);
    expect([...list].map(([, name]) => name)).toEqual(['one', 'again', 'five', 'seven', 'last']);
    expect([list.size, list.first]).toEqual([5, [1, 'one']]);
  });

  it('removes a member that is there, and nothing otherwise', () => {
    const list = listOf([1, 'one'], [3, 'three'], [5, 'five']);
    for (const absent of [0, 2, 4, 6]) list.remove([absent, '']);
    expect(list.size).toBe(3);
    list.remove([5, '']);
    list.remove([1, '']);
    expect([...list]).toEqual([[3, 'three']]);
    list.remove([3, '']);
    list.remove([3, '']);
    expect([list.size, list.first]).toEqual([0, undefined]);
  });
});
