/** What a caller reads that sent something wrong: which field, and what is allowed there. */
import { describe, expect, it } from 'vitest';
import { type OperationContract, operations } from '../../../src/contract/operations.ts';

type Part = 'body' | 'query' | 'headers';

/** Sends each value to one part of an operation, and answers with what is said about it. */
function refusalsOf(operation: string, part: Part, values: readonly unknown[]): string[] {
  const contract: Readonly<Record<string, OperationContract>> = operations;
  return values.map((value) => {
    const result = contract[operation]?.[part]?.safeParse(value);
    if (result === undefined || result.success) return 'nothing';
    return result.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`).join('; ');
  });
}

const parked = (notify: object) => ({ waitMs: 1, notify });
const leaseId = 'x'.repeat(16);
const secret = 'must be 16 to 128 of A-Z, a-z, 0-9, _ and -';
const lease = 'leaseMs must be an integer from 1000 to 86400000';
const several = 'locks must be a list of 1 to 50 locks';
const oneVersion = 'If-Match must be one version in quotation marks, such as "7", or *';

describe('a refusal', () => {
  it.each<[string, Part, [unknown, string][]]>([
    [
      'acquireLock',
      'body',
      [
        [{ leaseMs: 'long' }, lease],
        [{ leaseMs: 1 }, lease],
        [{ leaseMs: 1e9 }, lease],
        [{ leaseId: 7 }, `leaseId ${secret}`],
        [{ leaseId: 'short' }, `leaseId ${secret}`],
        [{ owner: 7 }, 'owner must be a string of 1 to 128 characters'],
        [{ owner: '' }, 'owner must be a string of 1 to 128 characters'],
        [{ owner: 'x'.repeat(129) }, 'owner must be a string of 1 to 128 characters'],
        [{ mode: 'both' }, 'mode must be exclusive or shared'],
        [{ mode: 'exclusive' }, 'nothing'],
        [{ mode: 'shared' }, 'nothing'],
        [{ tier: 'best' }, 'tier must be correctness or efficiency'],
        [{ tier: 'efficiency' }, 'nothing'],
        [{ metadata: 'x' }, 'metadata must be an object of strings without empty keys'],
        [{ metadata: { '': 'k' } }, 'metadata. must be an object of strings without empty keys'],
        [{ metadata: { job: 7 } }, 'metadata.job must be a string'],
        [{ metadata: { job: 'x'.repeat(1_024) } }, 'metadata must be at most 1024 bytes as JSON'],
        [{ place: 'old' }, 'place must be new, or the place of an earlier answer'],
        [{ place: 0 }, 'place must be new, or the place of an earlier answer'],
        [{ place: 'new' }, 'nothing'],
        [{ place: 1 }, 'nothing'],
        [{ place: 2 }, 'nothing'],
        [{ mode: 'shared', limit: 2 }, 'limit is not allowed together with mode'],
        [{ mode: 'shared', permits: 1 }, 'permits is not allowed together with mode'],
        [{ limit: 2, permits: 2 }, 'nothing'],
        [{ limit: 2, permits: 3 }, 'permits must be at most the limit, which is 2'],
        [{ permits: 2 }, 'permits must be at most the limit, which is 1'],
        [{ permits: 1 }, 'nothing'],
        [{ limit: 2 }, 'nothing'],
        [
          { sessionId: 's', leaseMs: 1_000 },
          'leaseMs is not allowed together with sessionId: the lease ends with the session',
        ],
        [{ sessionId: 's' }, 'nothing'],
        [
          { waitMs: 900_001 },
          'waitMs must be an integer from 0 to 900000; only parked waiters, with notify, may wait longer',
        ],
      ],
    ],
    [
      'acquireLock',
      'body',
      [
        [{ notify: { type: 'event', ref: 'me' } }, 'waitMs must be above 0 together with notify'],
        [
          parked({ type: 'pigeon' }),
          'notify.type must be an object whose type is event, task-token, durable-callback or websocket',
        ],
        [parked({ type: 'event', ref: '' }), 'notify.ref must be a string of 1 to 256 characters'],
        [parked({ type: 'task-token', token: 't', always: true }), 'nothing'],
        [parked({ type: 'task-token', token: 't', always: 1 }), 'notify.always must be true or false'],
        [parked({ type: 'durable-callback', id: 'aZ09+/=', always: false }), 'nothing'],
        [parked({ type: 'durable-callback', id: '-a' }), 'notify.id must be of A-Z, a-z, 0-9, +, / and ='],
        [parked({ type: 'durable-callback', id: 'a-' }), 'notify.id must be of A-Z, a-z, 0-9, +, / and ='],
        [parked({ type: 'websocket', connectionId: 'abc=' }), 'nothing'],
        [
          parked({ type: 'websocket', connectionId: '/' }),
          'notify.connectionId must be a connection id, from the first message of a socket',
        ],
      ],
    ],
    [
      'acquireLocks',
      'body',
      [
        [{ locks: ['a', { name: 'b', limit: 2, permits: 2 }] }, 'nothing'],
        [{ locks: 'a' }, several],
        [{ locks: [] }, several],
        [{ locks: Array.from({ length: 51 }, (_, index) => `lock-${index}`) }, several],
        [{ locks: [7] }, 'locks.0 must be a name, or an object with a name'],
        [{ locks: ['a', 'b', { name: 'a' }] }, 'locks must not name a lock twice'],
        [
          { locks: ['a'], sessionId: 's', leaseMs: 1_000 },
          'leaseMs is not allowed together with sessionId: the lease ends with the session',
        ],
      ],
    ],
    [
      'releaseLocks',
      'body',
      [
        [{ leaseId, locks: ['a', 'a'] }, 'locks must not name a lock twice'],
        [{ leaseId, locks: ['a', 'b'] }, 'nothing'],
      ],
    ],
    [
      'listLocks',
      'query',
      [
        [{ state: 'lost' }, 'state must be held or free'],
        [{ state: 'held' }, 'nothing'],
        [{ state: 'free' }, 'nothing'],
        [{ limit: '0' }, 'limit must be an integer from 1 to 1000'],
        [{ limit: '1' }, 'nothing'],
        [{ limit: '1000' }, 'nothing'],
        [{ limit: '1001' }, 'limit must be an integer from 1 to 1000'],
        [{ limit: 'x7' }, 'limit must be an integer from 1 to 1000'],
        [{ limit: '7x' }, 'limit must be an integer from 1 to 1000'],
        [{ limit: '7.0' }, 'limit must be an integer from 1 to 1000'],
        [{ limit: '0x10' }, 'limit must be an integer from 1 to 1000'],
        [{ limit: 7 }, 'limit must be an integer from 1 to 1000'],
        [{ cursor: 'x'.repeat(1_024) }, 'nothing'],
        [{ cursor: 'x'.repeat(1_025) }, 'cursor must be a cursor from an earlier page'],
        [{ prefix: '/' }, 'prefix must be the beginning of a name'],
      ],
    ],
    [
      'putRecord',
      'headers',
      [
        [{ 'If-Match': '"7", "8"' }, `${oneVersion}, and not several`],
        [{ 'If-Match': 'W/"7"' }, `${oneVersion}; W/ marks a weak tag, which a proxy may have added`],
        [{ 'If-Match': '7' }, oneVersion],
        [{ 'If-Match': 'x"7"' }, oneVersion],
        [{ 'If-Match': '"7"x' }, oneVersion],
        [{ 'If-Match': '"7W/"' }, oneVersion],
        [{ 'If-Match': '"9007199254740991"' }, 'nothing'],
        [{ 'If-Match': '"9007199254740992"' }, oneVersion],
        [
          { 'If-None-Match': '"7"' },
          'If-None-Match must be * on a write: put the version to be replaced into If-Match',
        ],
        [{ 'If-None-Match': '*' }, 'nothing'],
        [
          { 'If-Match': '"7"', 'If-None-Match': '*' },
          'If-None-Match is not allowed together with If-Match: a record cannot both exist and not exist',
        ],
        [{ 'Fence-Token': '0' }, 'Fence-Token must be an integer from 1 to 9007199254740991'],
        [{ 'Write-Id': 'short' }, `Write-Id ${secret}`],
      ],
    ],
    [
      'deleteRecord',
      'headers',
      [
        [
          { 'If-None-Match': '*' },
          'If-None-Match is not allowed: only a record that exists can be deleted, so use If-Match',
        ],
        [{ 'If-Match': '*' }, 'nothing'],
      ],
    ],
    [
      'getRecord',
      'headers',
      [
        [{ 'If-None-Match': '7' }, 'If-None-Match must be * or a list of entity tags such as "7", "8"'],
        [{ 'If-None-Match': '"7" "8"' }, 'If-None-Match must be * or a list of entity tags such as "7", "8"'],
        [{ 'If-None-Match': '"' }, 'If-None-Match must be * or a list of entity tags such as "7", "8"'],
      ],
    ],
  ])('of %s says what is allowed in its %s', (operation, part, cases) => {
    const said = refusalsOf(
      operation,
      part,
      cases.map(([value]) => value),
    );
    expect(said).toEqual(cases.map(([, message]) => message));
  });
});

describe('what the headers of a record mean', () => {
  const meaningOf = (operation: 'putRecord' | 'getRecord', headers: Record<string, string>): unknown =>
    operations[operation].headers.parse(headers);

  it('is one version, any version, or no record', () => {
    expect(meaningOf('putRecord', { 'If-Match': '"12"' })).toEqual({
      'If-Match': { kind: 'version', version: 12 },
    });
    expect(meaningOf('putRecord', { 'If-Match': '*' })).toEqual({ 'If-Match': { kind: 'present' } });
    expect(meaningOf('putRecord', { 'If-None-Match': '*' })).toEqual({ 'If-None-Match': { kind: 'absent' } });
  });

  it.each([
    ['*', '*'],
    ['"7"', ['7']],
    ['W/"7"', ['7']],
    ['"7" ,\t"8", W/"9"', ['7', '8', '9']],
    ['""', ['']],
    ['"a-tag/of others"', undefined],
    ['"a-tag/of-others~!#"', ['a-tag/of-others~!#']],
  ])('on a read of %s is a list of tags', (tags, known) => {
    const read = () => meaningOf('getRecord', { 'If-None-Match': tags });
    if (known === undefined) expect(read).toThrow('must be * or a list');
    else expect(read()).toEqual({ 'If-None-Match': known });
  });
});
