/**
 * The one table of routes: the handler, the local gateway, the OpenAPI document and the stack all read it.
 *
 * `access` says whose right it takes: `public` anybody who reaches the service, `inspect` to look, `use` to lock and write,
 * `admin` to end what others hold and to list everything.
 */
export type Access = 'public' | 'inspect' | 'use' | 'admin';

export interface Route {
  readonly operation: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly access: Access;
}

export const routes = [
  { operation: 'health', method: 'GET', path: '/v1/health', access: 'public' },
  { operation: 'openapi', method: 'GET', path: '/v1/openapi.json', access: 'public' },
  { operation: 'listLocks', method: 'GET', path: '/v1/{ns}/locks', access: 'admin' },
  { operation: 'inspectLock', method: 'GET', path: '/v1/{ns}/locks/{name}', access: 'inspect' },
  { operation: 'checkFence', method: 'GET', path: '/v1/{ns}/locks/{name}/check', access: 'inspect' },
  { operation: 'lockHistory', method: 'GET', path: '/v1/{ns}/locks/{name}/history', access: 'inspect' },
  { operation: 'acquireLock', method: 'POST', path: '/v1/{ns}/locks/{name}/acquire', access: 'use' },
  { operation: 'renewLock', method: 'POST', path: '/v1/{ns}/locks/{name}/renew', access: 'use' },
  { operation: 'releaseLock', method: 'POST', path: '/v1/{ns}/locks/{name}/release', access: 'use' },
  { operation: 'revokeLock', method: 'POST', path: '/v1/{ns}/locks/{name}/revoke', access: 'admin' },
  { operation: 'acquireLocks', method: 'POST', path: '/v1/{ns}/multi-locks/acquire', access: 'use' },
  { operation: 'renewLocks', method: 'POST', path: '/v1/{ns}/multi-locks/renew', access: 'use' },
  { operation: 'releaseLocks', method: 'POST', path: '/v1/{ns}/multi-locks/release', access: 'use' },
  { operation: 'createSession', method: 'POST', path: '/v1/{ns}/sessions', access: 'use' },
  { operation: 'getSession', method: 'GET', path: '/v1/{ns}/sessions/{id}', access: 'use' },
  { operation: 'endSession', method: 'DELETE', path: '/v1/{ns}/sessions/{id}', access: 'use' },
  { operation: 'keepSessionAlive', method: 'POST', path: '/v1/{ns}/sessions/{id}/keepalive', access: 'use' },
  { operation: 'getRecord', method: 'GET', path: '/v1/{ns}/records/{key}', access: 'inspect' },
  { operation: 'putRecord', method: 'PUT', path: '/v1/{ns}/records/{key}', access: 'use' },
  { operation: 'deleteRecord', method: 'DELETE', path: '/v1/{ns}/records/{key}', access: 'use' },
] as const satisfies readonly Route[];

export type Operation = (typeof routes)[number]['operation'];
