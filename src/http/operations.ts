import { lockHistory } from './history.ts';
import { acquireLock, checkFence, inspectLock, listLocks, releaseLock, renewLock, revokeLock } from './locks.ts';
import { acquireLocks, releaseLocks, renewLocks } from './multi-locks.ts';
import { openApiDocument } from './openapi.ts';
import { deleteRecord, getRecord, putRecord } from './records.ts';
import type { Reply, Request } from './request.ts';
import type { Operation } from './routes.ts';
import type { Service } from './service.ts';
import { deleteSession, getSession, keepSessionAlive, postSession } from './sessions.ts';

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
  lockHistory: ({ history }, request) => lockHistory(history, request),
  acquireLock: ({ locks }, request) => acquireLock(locks, request),
  renewLock: ({ locks }, request) => renewLock(locks, request),
  releaseLock: ({ locks }, request) => releaseLock(locks, request),
  revokeLock: ({ locks }, request) => revokeLock(locks, request),
  acquireLocks: ({ locks }, request) => acquireLocks(locks, request),
  renewLocks: ({ locks }, request) => renewLocks(locks, request),
  releaseLocks: ({ locks }, request) => releaseLocks(locks, request),
  createSession: ({ locks }, request) => postSession(locks, request),
  getSession: ({ locks }, request) => getSession(locks, request),
  endSession: ({ locks }, request) => deleteSession(locks, request),
  keepSessionAlive: ({ locks }, request) => keepSessionAlive(locks, request),
  getRecord: ({ records }, request) => getRecord(records, request),
  putRecord: ({ records }, request) => putRecord(records, request),
  deleteRecord: ({ records }, request) => deleteRecord(records, request),
};
