import { describe, expect, it } from 'vitest';
import { Twin } from '../../../src/testing/index.ts';

describe('an option that does not exist', () => {
  const locks = new Twin().client();

  it.each([
    [{ leaseMS: 5_000 }, 'The option leaseMS is unknown: it is called leaseMs.'],
    [{ timeout: 5_000 }, /^The option timeout is not one of leaseMs, owner, .*onWaiting\.$/],
  ])('is refused, because plain JavaScript has no compiler: %j', async (options, message) => {
    await expect(locks.acquire('a', options as object)).rejects.toThrow(message);
    await expect(locks.withLock('a', options as object, () => 1)).rejects.toThrow(message);
    await expect(locks.acquireAll(['a'], options as object)).rejects.toThrow(message);
    expect((await locks.inspect('a')).fence).toBe(0);
  });
});
