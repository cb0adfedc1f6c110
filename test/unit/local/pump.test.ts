import type { _Record, DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { memoryCheckpoints, type PumpOptions, startPump } from '../../../src/local/pump.ts';
import { eventually } from '../../support/eventually.ts';

/**
 * A stream whose shards split, expire and fail on demand. The real service does this, but no local engine can be made
 * to. An iterator is `arn|shard|index`.
 */
class ScriptedStream {
  readonly shards = new Map<string, { parent?: string; records: number[]; open: boolean }>();
  readonly calls: string[] = [];
  /** Each error is thrown once, by the next call of that name. */
  readonly failures: { call: string; error: Error }[] = [];
  arn = 'arn:aws:dynamodb:eu-west-1:1:table/t/stream/1';
  pageSize = 100;

  readonly client = { send: (command: object) => this.#send(command) } as unknown as DynamoDBStreamsClient;

  fail(call: string, name: string, status?: number): void {
    const error = Object.assign(new Error(`${name} on purpose`), { name });
    this.failures.push({ call, error: Object.assign(error, status && { $metadata: { httpStatusCode: status } }) });
  }

  async #send(command: object): Promise<object> {
    const name = command.constructor.name.replace('Command', '');
    const input = (command as { input: Record<string, string> }).input;
    this.calls.push([name, input.ShardId, input.ShardIteratorType].filter(Boolean).join(' '));
    const failure = this.failures.findIndex(({ call }) => call === name);
    if (failure >= 0) throw this.failures.splice(failure, 1)[0]?.error;
    if (name === 'DescribeStream') return this.#describe(input.StreamArn ?? '', input.ExclusiveStartShardId);
    if (name === 'GetShardIterator') return this.#position(input);
    return this.#read(input.ShardIterator ?? '', Number(input.Limit));
  }

  #describe(arn: string, from: string | undefined): object {
    if (arn !== this.arn) throw Object.assign(new Error(arn), { name: 'ResourceNotFoundException' });
    const all = [...this.shards].map(([ShardId, { parent }]) => ({ ShardId, ParentShardId: parent }));
    const start = from === undefined ? 0 : all.findIndex(({ ShardId }) => ShardId === from) + 1;
    const page = all.slice(start, start + this.pageSize);
    const isLast = start + this.pageSize >= all.length;
    return { StreamDescription: { Shards: page, ...(!isLast && { LastEvaluatedShardId: page.at(-1)?.ShardId }) } };
  }

  #position(input: Record<string, string>): object {
    const { records } = this.#shard(input.ShardId ?? '');
    const after = records.indexOf(Number(input.SequenceNumber)) + 1;
    const index = { TRIM_HORIZON: 0, LATEST: records.length }[input.ShardIteratorType ?? ''] ?? after;
    return { ShardIterator: `${input.StreamArn}|${input.ShardId}|${index}` };
  }

  #read(iterator: string, limit: number): object {
    const [arn, id = '', index] = iterator.split('|');
    if (arn !== this.arn) throw Object.assign(new Error(iterator), { name: 'ResourceNotFoundException' });
    const { records, open } = this.#shard(id);
    const end = Math.min(records.length, Number(index) + limit);
    const Records: _Record[] = records
      .slice(Number(index), end)
      .map((n) => ({ eventID: `${id}#${n}`, dynamodb: { SequenceNumber: String(n) } }));
    return { Records, ...((open || end < records.length) && { NextShardIterator: `${arn}|${id}|${end}` }) };
  }

  #shard(id: string) {
    const shard = this.shards.get(id);
    if (!shard) throw Object.assign(new Error(id), { name: 'ResourceNotFoundException' });
    return shard;
  }
}

function pumpOf(stream: ScriptedStream, more: Partial<PumpOptions> = {}) {
  const seen: string[] = [];
  const logger = { info: vi.fn(), warn: vi.fn(), error: vi.fn() };
  const onDeadLetter = vi.fn();
  const pump = startPump({
    client: stream.client,
    streamArn: async () => stream.arn,
    checkpoints: memoryCheckpoints(),
    startAt: 'TRIM_HORIZON',
    handler: async ({ Records }) => {
      seen.push(...Records.map((record) => record.eventID ?? ''));
    },
    onDeadLetter,
    logger,
    random: () => 0,
    pace: { busyMs: 1, idleMaxMs: 2 },
    ...more,
  });
  onTestFinished(() => pump.stop());
  return { pump, seen, logger, onDeadLetter };
}

const sees = (seen: string[], wanted: string[]) => eventually(() => expect(seen).toEqual(wanted));

describe('startPump, as shards come and go', () => {
  it('reads a child only after its parent, and finds both over several pages of the listing', async () => {
    const stream = new ScriptedStream();
    stream.pageSize = 1;
    // The child is listed first, because the order is not guaranteed.
    stream.shards.set('child', { parent: 'parent', records: [4, 5], open: true });
    stream.shards.set('parent', { parent: 'trimmed-long-ago', records: [1, 2, 3], open: false });
    const { seen } = pumpOf(stream, { batchSize: 2 });
    await sees(seen, ['parent#1', 'parent#2', 'parent#3', 'child#4', 'child#5']);
  });

  it('follows a shard that closes into its children at once', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [], open: true });
    const { pump, seen } = pumpOf(stream, { startAt: 'LATEST' });
    await pump.ready;
    stream.shards.set('a', { records: [1], open: false });
    stream.shards.set('b', { parent: 'a', records: [2], open: true });
    await sees(seen, ['a#1', 'b#2']);
    expect(pump.stats()).toMatchObject({ shardsReading: 1, shardsDrained: 1, taken: 2 });
  });

  it('does not let a slow shard hold up another', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('slow', { records: [1], open: true });
    stream.shards.set('quick', { records: [2, 3], open: true });
    const seen: string[] = [];
    const slow = Promise.withResolvers<void>();
    const handler: PumpOptions['handler'] = async ({ Records }) => {
      if (Records[0]?.eventID?.startsWith('slow')) await slow.promise;
      seen.push(...Records.map((record) => record.eventID ?? ''));
    };
    pumpOf(stream, { handler });
    await sees(seen, ['quick#2', 'quick#3']);
    slow.resolve();
    await sees(seen, ['quick#2', 'quick#3', 'slow#1']);
  });

  it('does not count records as taken at a stop if its handler had not taken them', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1, 2, 3], open: true });
    const checkpoints = memoryCheckpoints();
    const begun = Promise.withResolvers<void>();
    const handler: PumpOptions['handler'] = async () => {
      begun.resolve();
      throw new Error('The handler fails until the pump stops.');
    };
    // The filter rejects the last record of the page. The records before it must still be delivered.
    const filter: PumpOptions['filter'] = ({ dynamodb }) => dynamodb?.SequenceNumber !== '3';
    const { pump } = pumpOf(stream, { checkpoints, handler, filter });
    await begun.promise;
    await pump.stop();
    expect((await checkpoints.load())?.shards ?? {}).toEqual({});
  });

  it('starts at the latest record of open shards and leaves closed ones alone', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('old', { records: [1, 2], open: false });
    stream.shards.set('new', { parent: 'old', records: [3], open: true });
    const { pump, seen } = pumpOf(stream, { startAt: 'LATEST' });
    await pump.ready;
    stream.shards.get('new')?.records.push(4);
    await sees(seen, ['new#4']);
    expect(stream.calls).not.toContain('GetShardIterator old LATEST');
  });

  it('reads a re-created table from its start, whatever its start option', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1], open: true });
    const { pump, seen } = pumpOf(stream, { startAt: 'LATEST' });
    await pump.ready;
    stream.arn = 'arn:aws:dynamodb:eu-west-1:1:table/t/stream/2';
    stream.shards.set('a', { records: [7], open: true });
    await sees(seen, ['a#7']);
    expect(pump.stats().streamArn).toBe(stream.arn);
  });

  it('ignores the checkpoint of another stream, whose shard has the same name', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1, 2], open: true });
    const checkpoints = memoryCheckpoints({ streamArn: 'arn:of-another', shards: { a: '1' } });
    const { seen } = pumpOf(stream, { startAt: 'LATEST', checkpoints });
    await sees(seen, ['a#1', 'a#2']);
  });

  it('forgets the checkpoints of shards that are listed no more', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1, 2], open: true });
    const checkpoints = memoryCheckpoints({ streamArn: stream.arn, shards: { a: '1', 'long-gone': '9' } });
    const { seen } = pumpOf(stream, { checkpoints });
    await sees(seen, ['a#2']);
    expect(await checkpoints.load()).toEqual({ streamArn: stream.arn, shards: { a: '2' } });
  });
});

describe('startPump, when reading fails', () => {
  it('renews an expired iterator after the last record', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1, 2], open: true });
    const { seen, logger } = pumpOf(stream);
    await sees(seen, ['a#1', 'a#2']);
    stream.fail('GetRecords', 'ExpiredIteratorException');
    stream.shards.get('a')?.records.push(3);
    await sees(seen, ['a#1', 'a#2', 'a#3']);
    expect(stream.calls).toContain('GetShardIterator a AFTER_SEQUENCE_NUMBER');
    expect(logger.warn).not.toHaveBeenCalled();
  });

  it('never asks for the latest twice, because that would skip the records in between', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1], open: true });
    const { pump, seen } = pumpOf(stream, { startAt: 'LATEST' });
    await pump.ready;
    stream.fail('GetRecords', 'ExpiredIteratorException');
    stream.shards.get('a')?.records.push(2);
    await eventually(() => expect(seen).toContain('a#2'));
    expect(stream.calls.filter((call) => call.endsWith('LATEST'))).toHaveLength(1);
  });

  it('goes on from the oldest record that is left when its position was trimmed', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [5, 6], open: true });
    stream.fail('GetShardIterator', 'TrimmedDataAccessException');
    const checkpoints = memoryCheckpoints({ streamArn: stream.arn, shards: { a: '1' } });
    const { seen, logger } = pumpOf(stream, { checkpoints });
    await sees(seen, ['a#5', 'a#6']);
    expect(stream.calls).toContain('GetShardIterator a TRIM_HORIZON');
    expect(logger.warn).toHaveBeenCalledOnce();
  });

  it('keeps its iterator through an outage', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1], open: true });
    const { pump, seen } = pumpOf(stream, { startAt: 'LATEST' });
    await pump.ready;
    stream.fail('GetRecords', 'ECONNREFUSED');
    await eventually(() => expect(pump.stats().faults).toBe(1));
    stream.shards.get('a')?.records.push(2);
    await sees(seen, ['a#2']);
    expect(stream.calls.filter((call) => call.startsWith('GetShardIterator'))).toHaveLength(1);
  });

  it('reads from the start when the engine keeps failing on the position alone', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [5], open: true });
    for (let time = 0; time < 5; time += 1) stream.fail('GetShardIterator', 'InternalFailure', 500);
    const checkpoints = memoryCheckpoints({ streamArn: stream.arn, shards: { a: '999' } });
    const { seen } = pumpOf(stream, { checkpoints });
    await eventually(() => expect(seen).toEqual(['a#5']));
    expect(stream.calls).toContain('GetShardIterator a TRIM_HORIZON');
  });

  it('waits between tries, says so once, and says once that it works again', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1], open: true });
    for (let time = 0; time < 4; time += 1) stream.fail('DescribeStream', 'ECONNREFUSED');
    const { pump, logger } = pumpOf(stream);
    const startedAt = performance.now();
    await pump.ready;
    // Without randomness the four pauses are 25, 50, 100 and 200 ms.
    expect(performance.now() - startedAt).toBeGreaterThan(350);
    expect(logger.warn).toHaveBeenCalledOnce();
    expect(logger.info).toHaveBeenCalledOnce();
    expect(pump.stats().faults).toBe(4);
  });

  it('does not spin on an engine that answers every look with an expired iterator', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1], open: true });
    for (let time = 0; time < 1_000; time += 1) stream.fail('GetRecords', 'ExpiredIteratorException');
    const { pump } = pumpOf(stream);
    await eventually(() => expect(pump.stats().faults).toBeGreaterThanOrEqual(3));
    // Two looks for each fault, and those of the next one. A busy machine may see more than three faults.
    const reads = stream.calls.filter((call) => call === 'GetRecords').length;
    expect(reads).toBeLessThanOrEqual(2 * (pump.stats().faults + 1));
  });

  it('does not blame a record for the failures of an engine that is down', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1], open: true });
    let isDown = true;
    const seen: string[] = [];
    let attempts = 0;
    const { onDeadLetter } = pumpOf(stream, {
      retriesMax: 1,
      handler: async ({ Records }) => {
        attempts += 1;
        if (isDown) {
          stream.fail('DescribeStream', 'ECONNREFUSED');
          throw new Error('The store can not be reached.');
        }
        seen.push(...Records.map((record) => record.eventID ?? ''));
      },
    });
    await eventually(() => expect(attempts).toBeGreaterThan(4));
    isDown = false;
    await sees(seen, ['a#1']);
    expect(onDeadLetter).not.toHaveBeenCalled();
  });
});

describe('the pace', () => {
  it('looks once and then leaves an idle engine alone', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [], open: true });
    const { pump } = pumpOf(stream, { pace: { busyMs: 600_000, idleMaxMs: 600_000 } });
    await eventually(() => expect(pump.stats().polls).toBe(1));
    for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    expect(stream.calls.filter((call) => call === 'GetRecords')).toHaveLength(1);
  });

  it('looks again at once after a full page, however long its pauses are', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1, 2, 3], open: true });
    const { seen } = pumpOf(stream, { batchSize: 1, pace: { busyMs: 600_000, idleMaxMs: 600_000 } });
    await sees(seen, ['a#1', 'a#2', 'a#3']);
  });
});

describe('a handler that fails', () => {
  it('gets the records again unchanged, whatever it did to them', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1], open: true });
    const seen: string[] = [];
    pumpOf(stream, {
      handler: async ({ Records }) => {
        seen.push(...Records.map((record) => record.eventID ?? ''));
        for (const record of Records) record.eventID = 'spoilt';
        if (seen.length === 1) throw new Error('Once more, please.');
      },
    });
    await sees(seen, ['a#1', 'a#1']);
  });

  it('may do so by never answering', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1, 2], open: true });
    const seen: string[] = [];
    const { onDeadLetter, logger } = pumpOf(stream, {
      handlerTimeoutMs: 10,
      retriesMax: 1,
      handler: ({ Records }) => {
        if (Records.some(({ eventID }) => eventID === 'a#1')) return new Promise(() => {});
        seen.push(...Records.map((record) => record.eventID ?? ''));
        return Promise.resolve();
      },
    });
    await sees(seen, ['a#2']);
    expect(onDeadLetter).toHaveBeenCalledOnce();
    // A record has lease ids in it, so the log names the record and shows none of its content.
    const given = { sequenceNumbers: ['1'], error: expect.any(String) };
    expect(logger.error.mock.calls).toEqual([['stream pump: a record was given up', given]]);
  });

  it('may do so before it returns a promise', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1, 2], open: true });
    const handler = vi.fn<PumpOptions['handler']>().mockImplementationOnce(() => {
      throw new Error('Not even a promise.');
    });
    const { pump } = pumpOf(stream, { handler: handler.mockResolvedValue(null) });
    await eventually(() => expect(pump.stats()).toMatchObject({ taken: 2, retries: 1 }));
  });
});

describe('stop', () => {
  it('lets the batch in hand end and keeps its checkpoint', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1], open: true });
    const checkpoints = memoryCheckpoints();
    const called = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    const { pump } = pumpOf(stream, {
      checkpoints,
      handler: async () => {
        called.resolve();
        await answer.promise;
      },
    });
    await called.promise;
    const stopped = pump.stop();
    answer.resolve();
    await stopped;
    expect(await checkpoints.load()).toEqual({ streamArn: stream.arn, shards: { a: '1' } });
  });

  it('does not wait longer than its grace for a handler that never answers, and calls no more', async () => {
    const stream = new ScriptedStream();
    stream.shards.set('a', { records: [1], open: true });
    const checkpoints = memoryCheckpoints();
    const called = Promise.withResolvers<void>();
    const { pump } = pumpOf(stream, {
      checkpoints,
      stopGraceMs: 20,
      handler: () => {
        called.resolve();
        return new Promise(() => {});
      },
    });
    await called.promise;
    await pump.stop();
    expect(await checkpoints.load()).toBeNull();
  });

  it('rejects for a caller that waits for a pump which never became ready', async () => {
    const stream = new ScriptedStream();
    for (let time = 0; time < 100; time += 1) stream.fail('DescribeStream', 'ECONNREFUSED');
    const { pump } = pumpOf(stream);
    await pump.stop();
    await expect(pump.ready).rejects.toThrow('stopped before it was ready');
  });
});
