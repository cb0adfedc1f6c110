import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { putFenced, type S3Objects, s3Objects } from '../../../src/guards/s3.ts';

describe('putFenced', () => {
  /** Another writer wins every race. */
  const contended = (): S3Objects => ({
    head: async () => ({ etag: '"x"', metadata: {} }),
    put: async () => 'conflict',
  });

  it('gives up after its last try, without waiting after it', async () => {
    const sleep = vi.fn(async () => {});
    const objects = contended();
    const put = vi.spyOn(objects, 'put');
    const outcome = await putFenced(objects, { key: 'k', fence: 34, value: 1 }, { attemptsMax: 3, sleep });
    expect(outcome).toEqual({ kind: 'conflict', attempts: 3 });
    expect([put, sleep].map(({ mock }) => mock.calls.length)).toEqual([3, 2]);
  });

  it('waits longer after each try, with a random part', async () => {
    const sleep = vi.fn(async (_delayMs: number) => {});
    await putFenced(contended(), { key: 'k', fence: 34, value: 1 }, { sleep, random: () => 0.5 });
    expect(sleep.mock.calls.flat()).toEqual([50, 100, 200, 400, 500, 500, 500]);
  });

  it('refuses a body that is the same for every fence', async () => {
    const put = (fence: number, body: () => string | Uint8Array) =>
      putFenced(contended(), { key: 'k', fence, body }, { attemptsMax: 1 });
    await expect(put(34, () => 'same')).rejects.toThrow('put the fence into it');
    await expect(put(1, () => Uint8Array.of(1))).rejects.toThrow('put the fence into it');
  });

  it.each<[string, (fence: number) => string | Uint8Array]>([
    ['text', (fence) => `fence ${fence}`],
    ['text that is bytes for another fence', (fence) => (fence === 34 ? 'x' : Uint8Array.of(120))],
    ['bytes that are text for another fence', (fence) => (fence === 34 ? Uint8Array.of(120) : 'x')],
    ['bytes of which one differs', (fence) => Uint8Array.of(7, fence, 7)],
    ['bytes that only end earlier', (fence) => (fence === 34 ? Uint8Array.of(7) : Uint8Array.of(7, 8))],
  ])('takes a body that differs by fence: %s', async (_kind, body) => {
    const outcome = await putFenced(contended(), { key: 'k', fence: 34, body }, { attemptsMax: 1 });
    expect(outcome).toEqual({ kind: 'conflict', attempts: 1 });
  });

  it('asks for the body of another valid fence, to compare the two', async () => {
    const asked: number[] = [];
    const body = (fence: number) => {
      asked.push(fence);
      return String(fence);
    };
    for (const fence of [34, 1]) await putFenced(contended(), { key: 'k', fence, body }, { attemptsMax: 1 });
    expect(asked).toEqual([34, 33, 1, 2]);
  });

  it('is refused by a higher fence that is stored, and writes nothing then', async () => {
    const put = vi.fn(async () => ({ etag: '"new"' }));
    const under = (fence: string) => ({ head: async () => ({ etag: '"x"', metadata: { fence } }), put });
    const write = { key: 'k', fence: 34, value: 1 };
    expect(await putFenced(under('35'), write)).toEqual({ kind: 'stale', fence: 34, floor: 35 });
    await expect(putFenced(under('soon'), write)).rejects.toThrow('x-amz-meta-fence of k');
    expect(put).not.toHaveBeenCalled();
  });

  it('waits in real time unless another sleep is given', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const objects = contended();
    const put = vi.spyOn(objects, 'put').mockResolvedValueOnce('conflict').mockResolvedValueOnce({ etag: '"new"' });
    const writing = putFenced(objects, { key: 'k', fence: 34, value: 1 }, { random: () => 1 });
    await vi.advanceTimersByTimeAsync(99);
    expect(put).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(await writing).toEqual({ kind: 'written', etag: '"new"' });
  });

  it('refuses metadata that would be a second fence', async () => {
    const write = { key: 'k', fence: 34, value: 1, metadata: { Fence: '99' } };
    await expect(putFenced(contended(), write, { attemptsMax: 1 })).rejects.toThrow('belongs to the guard');
  });

  it('stores the fence in the body and in the metadata, beside the metadata of the caller', async () => {
    const put = vi.fn(async () => ({ etag: '"new"' }));
    await putFenced(
      { head: async () => null, put },
      { key: 'k', fence: 34, value: { a: 1 }, metadata: { owner: 'me' } },
    );
    const options = { ifNoneMatch: '*', metadata: { owner: 'me', fence: '34' }, contentType: 'application/json' };
    expect(put).toHaveBeenCalledWith('k', '{"fence":34,"value":{"a":1}}', options);
  });

  it('writes bytes of the caller on the condition of the ETag that it read', async () => {
    const put = vi.fn(async () => ({ etag: '"new"' }));
    const objects = { head: async () => ({ etag: '"old"', metadata: { fence: '34' } }), put };
    expect(await putFenced(objects, { key: 'k', fence: 34, body: (fence) => Uint8Array.of(fence) })).toEqual({
      kind: 'written',
      etag: '"new"',
    });
    expect(put).toHaveBeenCalledWith('k', Uint8Array.of(34), { ifMatch: '"old"', metadata: { fence: '34' } });
  });
});

describe('s3Objects', () => {
  class Command {
    readonly input: unknown;
    constructor(input: unknown) {
      this.input = input;
    }
  }
  const failing = (httpStatusCode: number, name = 'Error') =>
    s3Objects({
      client: {
        send: async () => Promise.reject(Object.assign(new Error(name), { name, $metadata: { httpStatusCode } })),
      },
      bucket: 'b',
      HeadObjectCommand: Command,
      PutObjectCommand: Command,
    });
  const put = (objects: S3Objects) => objects.put('k', 'body', { ifMatch: '"x"', metadata: {} });

  it('reads and writes the object of its bucket, on the condition that it is given', async () => {
    const inputs: unknown[] = [];
    let stored: object = { ETag: '"x"', Metadata: { fence: '34' } };
    const objects = s3Objects({
      client: {
        send: async ({ input }: Command) => {
          inputs.push(input);
          return stored;
        },
      },
      ...{ bucket: 'b', HeadObjectCommand: Command, PutObjectCommand: Command },
    });
    expect(await objects.head('k')).toEqual({ etag: '"x"', metadata: { fence: '34' } });
    stored = { ETag: '"y"' };
    expect(await objects.head('k')).toEqual({ etag: '"y"', metadata: {} });
    expect(await put(objects)).toEqual({ etag: '"y"' });
    const first = { ifNoneMatch: '*', metadata: { fence: '34' }, contentType: 'text/plain' } as const;
    await objects.put('k', 'body', first);
    const inBucket = { Bucket: 'b', Key: 'k' };
    expect(inputs).toStrictEqual([
      inBucket,
      inBucket,
      { ...inBucket, Body: 'body', Metadata: {}, IfMatch: '"x"' },
      { ...inBucket, Body: 'body', Metadata: { fence: '34' }, ContentType: 'text/plain', IfNoneMatch: '*' },
    ]);
  });

  it.each([new Error('no answer'), null])('throws %s, which has no status', async (error) => {
    const send = () => Promise.reject(error);
    const objects = s3Objects({ client: { send }, bucket: 'b', HeadObjectCommand: Command, PutObjectCommand: Command });
    await expect(objects.head('k')).rejects.toBe(error);
    await expect(put(objects)).rejects.toBe(error);
  });

  it.each([412, 409, 404])('calls %d a conflict', async (status) => {
    expect(await put(failing(status))).toBe('conflict');
  });

  it.each([
    [404, 'NoSuchBucket'],
    [403, 'AccessDenied'],
    [500, 'InternalError'],
  ])('throws %d %s', async (status, name) => {
    await expect(put(failing(status, name))).rejects.toThrow(name);
  });

  it('never treats a refused read as an absent object', async () => {
    expect(await failing(404).head('k')).toBeNull();
    await expect(failing(403, 'AccessDenied').head('k')).rejects.toThrow('AccessDenied');
  });
});
