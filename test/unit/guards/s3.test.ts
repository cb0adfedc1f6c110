import { describe, expect, it, vi } from 'vitest';
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
    const write = { key: 'k', fence: 34 };
    await expect(putFenced(contended(), { ...write, body: () => 'same' })).rejects.toThrow('put the fence into it');
    await expect(putFenced(contended(), { ...write, fence: 1, body: () => Uint8Array.of(1) })).rejects.toThrow(
      'put the fence into it',
    );
  });

  it('refuses metadata that would be a second fence', async () => {
    const write = { key: 'k', fence: 34, value: 1, metadata: { Fence: '99' } };
    await expect(putFenced(contended(), write)).rejects.toThrow('belongs to the guard');
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
