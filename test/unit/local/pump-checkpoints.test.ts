import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { fileCheckpoints, memoryCheckpoints } from '../../../src/local/pump/checkpoints.ts';
import { eventually } from '../../support/eventually.ts';

const logger = { info: vi.fn(), warn: vi.fn(), error: vi.fn() };
const checkpoint = (sequenceNumber: string) => ({ streamArn: 'arn:stream', shards: { 'shard-1': sequenceNumber } });

describe('memoryCheckpoints', () => {
  it('keeps the last checkpoint, or the first that it was given', async () => {
    const checkpoints = memoryCheckpoints(checkpoint('1'));
    expect(await checkpoints.load()).toEqual(checkpoint('1'));
    checkpoints.save(checkpoint('2'));
    await checkpoints.flush();
    expect(await checkpoints.load()).toEqual(checkpoint('2'));
    expect(await memoryCheckpoints().load()).toBeNull();
  });
});

describe('fileCheckpoints', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'holdfast-checkpoints-'));
    vi.clearAllMocks();
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('knows nothing before the first save', async () => {
    expect(await fileCheckpoints(join(folder, 'c.json'), logger).load()).toBeNull();
  });

  it('keeps the last of many saves when flushed, in a folder that it makes, and leaves no other file', async () => {
    const path = join(folder, 'deep', 'c.json');
    const checkpoints = fileCheckpoints(path, logger, 60_000);
    for (let n = 0; n < 100; n += 1) checkpoints.save(checkpoint(String(n)));
    await checkpoints.flush();
    expect(await fileCheckpoints(path, logger).load()).toEqual(checkpoint('99'));
    expect(await readdir(join(folder, 'deep'))).toEqual(['c.json']);
  });

  it('keeps a checkpoint that is saved during a write', async () => {
    const path = join(folder, 'c.json');
    const checkpoints = fileCheckpoints(path, logger, 60_000);
    checkpoints.save(checkpoint('1'));
    const first = checkpoints.flush();
    // By the next turn of the loop the first write has begun. It takes several turns.
    await new Promise((resolve) => setImmediate(resolve));
    checkpoints.save(checkpoint('2'));
    await first;
    await checkpoints.flush();
    expect(await fileCheckpoints(path, logger).load()).toEqual(checkpoint('2'));
  });

  it('writes by itself soon after a save', async () => {
    const path = join(folder, 'c.json');
    fileCheckpoints(path, logger, 1).save(checkpoint('5'));
    await eventually(async () => expect(JSON.parse(await readFile(path, 'utf8'))).toEqual(checkpoint('5')));
  });

  it('takes a torn file for the checkpoint of another stream, so that nothing is skipped', async () => {
    const path = join(folder, 'c.json');
    await writeFile(path, '{"streamArn": "arn:str');
    expect(await fileCheckpoints(path, logger).load()).toEqual({ streamArn: '', shards: {} });
    expect(logger.warn.mock.calls).toEqual([
      [
        'stream pump: the checkpoint is unreadable, reading the stream from its start',
        { path, error: expect.stringContaining('SyntaxError') },
      ],
    ]);
  });

  it('does not take a file that it may not read for a first start', async () => {
    await expect(fileCheckpoints(folder, logger).load()).rejects.toThrow('EISDIR');
  });

  it('writes nothing if nothing was saved since the last write', async () => {
    const path = join(folder, 'c.json');
    const checkpoints = fileCheckpoints(path, logger, 60_000);
    await checkpoints.flush();
    checkpoints.save(checkpoint('1'));
    await checkpoints.flush();
    await rm(path);
    await checkpoints.flush();
    expect(await readdir(folder)).toEqual([]);
  });

  it('says so if it could not write by itself', async () => {
    const path = join(folder, 'blocker', 'c.json');
    await writeFile(join(folder, 'blocker'), 'a file where a folder is wanted');
    fileCheckpoints(path, logger, 1).save(checkpoint('5'));
    await eventually(async () =>
      expect(logger.error.mock.calls).toEqual([
        ['stream pump: the checkpoint was not written', { path, error: expect.stringContaining('E') }],
      ]),
    );
  });

  it('rejects a flush if the disk refused, and keeps the checkpoint for the next try', async () => {
    const blocker = join(folder, 'blocker');
    await writeFile(blocker, 'a file where a folder is wanted');
    const path = join(blocker, 'c.json');
    const checkpoints = fileCheckpoints(path, logger, 60_000);
    checkpoints.save(checkpoint('7'));
    await expect(checkpoints.flush()).rejects.toThrow();
    await rm(blocker);
    await checkpoints.flush();
    expect(await checkpoints.load()).toEqual(checkpoint('7'));
  });
});
