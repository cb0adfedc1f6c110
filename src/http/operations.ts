import { acquireLock, checkFence, inspectLock, listLocks, releaseLock, renewLock, revokeLock } from './locks.ts';
import { openApiDocument } from './openapi.ts';
import type { Reply, Request } from './request.ts';
import type { Operation } from './routes.ts';
import type { Service } from './service.ts';

type Operate = (service: Service, request: Request) => Promise<Reply>;

/** Every route has its operation: the type makes a missing one an error. */
export const operations: Record<Operation, Operate> = {
  health: async ({ probe, version, engine }) => {
    await probe();
    return { status: 200, body: { status: 'ok', version, engine } };
  },
  openapi: ({ version }) => Promise.resolve({ status: 200, body: openApiDocument(version) }),
  listLocks: ({ locks }, request) => listLocks(locks, request),
  inspectLock: ({ locks }, request) => inspectLock(locks, request),
  checkFence: ({ locks }, request) => checkFence(locks, request),
  acquireLock: ({ locks }, request) => acquireLock(locks, request),
  renewLock: ({ locks }, request) => renewLock(locks, request),
  releaseLock: ({ locks }, request) => releaseLock(locks, request),
  revokeLock: ({ locks }, request) => revokeLock(locks, request),
};
