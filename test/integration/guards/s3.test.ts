import { GetObjectCommand, HeadObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { putFenced, type S3Objects, s3Objects } from '../../../src/guards/s3.ts';
import { startConditionalS3 } from './conditional-s3.ts';
import { describePauseStory } from './pause-story.ts';

const bucket = 'guards';

describe('S3', () => {
  let server: Awaited<ReturnType<typeof startConditionalS3>>;
  let client: S3Client;
  let objects: S3Objects;
  let resources = 0;
  const freshKey = () => `reports/${++resources}.json`;
  /** With many writers at once, most lose a race, so they get as many tries as there are writers. */
  const options = { attemptsMax: 12, sleep: async () => {} };

  beforeAll(async () => {
    server = await startConditionalS3(bucket);
    const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
    client = new S3Client({ endpoint: server.endpoint, region: 'us-east-1', forcePathStyle: true, credentials });
    objects = s3Objects({ client, bucket, HeadObjectCommand, PutObjectCommand });
  });
  afterAll(async () => {
    client.destroy();
    await server.stop();
  });

  const stored = async (Key: string) => {
    const { Body, Metadata } = await client.send(new GetObjectCommand({ Bucket: bucket, Key }));
    const { value } = JSON.parse((await Body?.transformToString()) ?? 'null');
    return { value, floor: Number(Metadata?.fence) };
  };

  describePauseStory(
    'putFenced',
    async () => {
      const key = freshKey();
      return { write: (fence, value) => putFenced(objects, { key, fence, value }, options), read: () => stored(key) };
    },
    { runs: 10 },
  );

  /** Holder A reads the object and pauses before its write, while the story goes on. */
  const pausedBeforePut = (meanwhile: () => Promise<unknown>): S3Objects => {
    let paused = false;
    return {
      head: objects.head,
      async put(...write) {
        if (!paused) {
          paused = true;
          await meanwhile();
        }
        return objects.put(...write);
      },
    };
  };

  describe('putFenced', () => {
    it('refuses a holder that paused between its read and its write', async () => {
      const key = freshKey();
      await putFenced(objects, { key, fence: 32, value: 'before' });
      const late = pausedBeforePut(() => putFenced(objects, { key, fence: 34, value: 'by B' }));
      expect(await putFenced(late, { key, fence: 33, value: 'late by A' }, options)).toEqual({
        kind: 'stale',
        fence: 33,
        floor: 34,
      });
      expect(await stored(key)).toEqual({ value: 'by B', floor: 34 });
    });

    it('refuses it even if the next holder wrote the same value as before', async () => {
      const key = freshKey();
      await putFenced(objects, { key, fence: 32, value: 'same' });
      const late = pausedBeforePut(() => putFenced(objects, { key, fence: 34, value: 'same' }));
      expect(await putFenced(late, { key, fence: 33, value: 'late by A' }, options)).toEqual({
        kind: 'stale',
        fence: 33,
        floor: 34,
      });
      expect(await stored(key)).toEqual({ value: 'same', floor: 34 });
    });

    it('starts again when the object vanishes between its read and its write', async () => {
      const key = freshKey();
      await putFenced(objects, { key, fence: 32, value: 'before' });
      const late = pausedBeforePut(() => fetch(`${server.endpoint}/${bucket}/${key}`, { method: 'DELETE' }));
      expect(await putFenced(late, { key, fence: 33, value: 'again' }, options)).toMatchObject({ kind: 'written' });
      expect(await stored(key)).toEqual({ value: 'again', floor: 33 });
    });

    it('takes over an object that existed before the guard', async () => {
      const key = freshKey();
      await client.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: 'old' }));
      expect(await putFenced(objects, { key, fence: 33, value: 'new' })).toMatchObject({ kind: 'written' });
    });

    it('throws on a floor that it cannot read', async () => {
      const key = freshKey();
      await client.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: 'x', Metadata: { fence: 'soon' } }));
      await expect(putFenced(objects, { key, fence: 33, value: 'new' })).rejects.toThrow(/x-amz-meta-fence.*soon/);
    });

    it('throws when there is no such bucket', async () => {
      const elsewhere = s3Objects({ client, bucket: 'nowhere', HeadObjectCommand, PutObjectCommand });
      await expect(putFenced(elsewhere, { key: 'x', fence: 33, value: 1 })).rejects.toThrow();
    });
  });
});
