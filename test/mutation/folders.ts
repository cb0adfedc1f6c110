/** The suites that belong to each folder, the quickest first: each test runs again for every mutant that it reaches. */
export const suitesOf: Readonly<Record<string, readonly string[]>> = {
  'src/lock': ['test/unit/lock'],
  'src/session': ['test/unit/session', 'test/property/deadlock.test.ts'],
  'src/multi': ['test/unit/multi'],
  'src/record': ['test/unit/record'],
  'src/service': [
    // Few of their tests wait, so a mutant that never ends is seldom met first.
    'test/unit/service/apply.test.ts',
    'test/unit/service/pages.test.ts',
    'test/unit/service/lock-memory.test.ts',
    'test/unit/service',
    'test/unit/http/answers.test.ts',
  ],
  'src/store': ['test/unit/store', 'test/contract'],
  'src/notify': ['test/unit/notify/change-events.test.ts', 'test/unit/notify'],
  'src/client': ['test/unit/client', 'test/unit/opentelemetry'],
  'src/durable': ['test/unit/durable'],
  'src/opentelemetry': ['test/unit/opentelemetry'],
  'src/server': ['test/unit/server'],
  'src/http': ['test/unit/http'],
  'src/contract': ['test/unit/contract', 'test/unit/http'],
  'src/websocket': ['test/unit/websocket', 'test/unit/service/sockets.test.ts'],
  'src/process': ['test/unit/process'],
  'src/guards': ['test/unit/guards', 'test/property/guards-dynamodb.test.ts', 'test/property/guards-s3.test.ts'],
  'src/middleware': ['test/unit/client/middleware.test.ts', 'test/unit/client/deadlines.test.ts'],
  'src/local': ['test/unit/local'],
  // Without the bundles, which are not built from these files, and the alarms, which run whole simulations.
  infra: ['grants', 'functions', 'table', 'http-api', 'notifications', 'monitoring', 'locked-section', 'stack'].map(
    (name) => `test/infra/${name}.test.ts`,
  ),
};

/** Some suites of one folder of the unit tests. */
const unit = (folder: string, ...names: readonly string[]): readonly string[] =>
  names.map((name) => `test/unit/${folder}/${name}.test.ts`);

/** Only the suites that say something about a file, for folders with many: all of them would take hours. */
const suitesOfFile: Readonly<Record<string, readonly string[]>> = {
  'src/store/dynamodb/attributes.ts': ['test/unit/store/attributes.test.ts'],
  'src/store/dynamodb/claim-item.ts': [
    'test/unit/store/page-item.test.ts',
    'test/unit/store/lock-item.test.ts',
    'test/unit/store/lock-writes.test.ts',
  ],
  'src/store/dynamodb/client.ts': ['test/unit/store/wire.test.ts'],
  'src/store/dynamodb/connection-items.ts': ['test/unit/store', 'test/contract/connections.test.ts'],
  'src/store/dynamodb/failures.ts': ['test/unit/store/failures.test.ts', 'test/unit/store/wire.test.ts'],
  'src/store/dynamodb/history-items.ts': ['test/unit/store/requests.test.ts', 'test/contract/history.test.ts'],
  'src/store/dynamodb/item-table.ts': ['test/unit/store/requests.test.ts', 'test/contract/lock-store.test.ts'],
  'src/store/dynamodb/lock-item.ts': ['test/unit/store/lock-item.test.ts', 'test/unit/store/lock-writes.test.ts'],
  'src/store/dynamodb/lock-store.ts': [
    'test/unit/store/lock-store.test.ts',
    'test/unit/store/requests.test.ts',
    'test/contract/lock-store.test.ts',
    'test/contract/lock-writes.test.ts',
    'test/contract/requests.test.ts',
  ],
  'src/store/dynamodb/lock-writes.ts': ['test/unit/store/lock-writes.test.ts'],
  'src/store/dynamodb/notifier-items.ts': ['test/unit/store/requests.test.ts', 'test/contract/connections.test.ts'],
  'src/store/dynamodb/page-item.ts': ['test/unit/store/page-item.test.ts'],
  'src/store/dynamodb/record-items.ts': [
    'test/unit/store/record-items.test.ts',
    'test/unit/store/record-store.test.ts',
    'test/contract/records.test.ts',
  ],
  'src/store/dynamodb/session-item.ts': ['test/unit/store/session-item.test.ts', 'test/unit/store/requests.test.ts'],
  'src/store/dynamodb/session-store.ts': ['test/unit/store/requests.test.ts', 'test/contract/session-store.test.ts'],
  'src/store/dynamodb/socket-items.ts': ['test/unit/store', 'test/contract/connections.test.ts'],
  'src/store/dynamodb/stream-images.ts': ['test/unit/notify'],
  'src/store/dynamodb/table.ts': ['test/unit/store/lock-item.test.ts', 'test/contract/lock-store.test.ts'],
  'src/store/dynamodb/wire.ts': ['test/unit/store/values.test.ts', 'test/unit/store/wire.test.ts'],
  'src/store/history-rules.ts': ['test/property/history.test.ts', 'test/contract/history.test.ts'],
  'src/store/history-store.ts': ['test/contract/history.test.ts'],
  'src/store/store-error.ts': ['test/unit/store/failures.test.ts'],
  'src/store/memory/history-store.ts': ['test/contract/history.test.ts'],
  'src/store/memory/lock-store.ts': ['test/unit/store/memory-lock-store.test.ts'],
  'src/store/memory/record-store.ts': ['test/contract/records.test.ts'],
  'src/store/memory/session-store.ts': ['test/contract/session-store.test.ts'],
  'src/service/acquire.ts': unit(
    'service',
    'acquire',
    'cheap-looks',
    'throttled',
    'session-waits',
    'sockets',
    'sessions',
  ),
  'src/service/context.ts': unit('service', 'context', 'cheap-looks', 'apply', 'pages'),
  'src/service/deadlock.ts': unit('service', 'deadlock', 'session-waits'),
  'src/service/lease.ts': unit('service', 'lease'),
  'src/service/look.ts': unit('service', 'look'),
  'src/service/notified-waits.ts': unit('service', 'notified-waits'),
  'src/service/polled-waits.ts': unit('service', 'polled-waits'),
  'src/service/records.ts': unit('service', 'records'),
  'src/service/refusals.ts': unit('service', 'refusals', 'throttled'),
  'src/service/session-lives.ts': unit('service', 'session-lives', 'session-waits'),
  'src/service/under-session.ts': unit('service', 'session-waits', 'sockets', 'acquire'),
  'src/notify/hand-offs.ts': unit('notify', 'hand-offs', 'aws-ports'),
  'src/notify/lock-change.ts': unit('notify', 'lock-change'),
  'src/notify/look-times.ts': unit('notify', 'look-times', 'reaper'),
  'src/notify/measures.ts': unit('notify', 'measures'),
  'src/notify/publisher.ts': unit('notify', 'notifier', 'watchers'),
  'src/notify/reaper.ts': unit('notify', 'reaper'),
  'src/notify/stream-filter.ts': unit('notify', 'stream-filter'),
  'src/notify/stream-handler.ts': unit('notify', 'stream-handler'),
  'src/notify/watchers.ts': unit('notify', 'watchers'),
  'src/notify/aws/calls.ts': unit('notify', 'aws-ports', 'aws'),
  'src/notify/aws/deliveries.ts': unit('notify', 'aws-ports', 'aws'),
  'src/notify/aws/event-bus.ts': unit('notify', 'aws-ports', 'aws'),
  'src/notify/aws/meter.ts': unit('notify', 'aws-ports', 'measures'),
  'src/notify/aws/ports.ts': unit('notify', 'aws-ports'),
  'src/notify/aws/reaper-handler.ts': unit('notify', 'reaper'),
  'src/notify/aws/timers.ts': unit('notify', 'sqs-timers', 'aws-ports'),
  'src/client/abort.ts': unit('client', 'abort', 'signals'),
  'src/client/calls.ts': unit('client', 'routes', 'views', 'session'),
  'src/client/lease-calls.ts': unit('client', 'lease-calls'),
  'src/client/core.ts': unit('client', 'core'),
  'src/client/election.ts': unit('client', 'election'),
  'src/client/errors.ts': unit('client', 'views', 'twin', 'lock', 'session', 'record', 'http-transport', 'once'),
  'src/client/held-lock.ts': unit('client', 'keeper', 'twin', 'lock'),
  'src/client/holdfast.ts': unit('client', 'routes', 'views', 'twin', 'lock', 'deadlines'),
  'src/client/http-transport.ts': unit('client', 'http-transport'),
  'src/client/lock-options.ts': unit('client', 'deadlines', 'lock', 'waiting'),
  'src/client/named-lock.ts': unit('client', 'keeper', 'lock'),
  'src/client/observer.ts': unit('client', 'keeper', 'breaker'),
  'src/client/once.ts': unit('client', 'once'),
  'src/client/problem.ts': unit('client', 'views', 'lock', 'record', 'session', 'http-transport'),
  'src/client/runtime.ts': unit('client', 'runtime'),
  'src/client/sockets.ts': unit('client', 'sockets'),
  'src/client/tenure.ts': unit('client', 'keeper', 'shortened-lease', 'timers', 'lock'),
  'src/client/watch.ts': unit('client', 'watch'),
  'src/client/auth/auth.ts': unit('client', 'sigv4', 'http-transport'),
  'src/client/auth/signature.ts': unit('client', 'sigv4'),
  'src/client/auth/sigv4.ts': unit('client', 'sigv4'),
  'src/client/tracing.ts': unit('opentelemetry', 'spans'),
};

/** Many callers act at once in these suites, so one test takes seconds. They would run again for thousands of mutants. */
export const tooSlow: readonly string[] = [
  'test/unit/http/longest-queue.test.ts',
  'test/unit/service/joining-crowd.test.ts',
  'test/unit/service/readers.test.ts',
];

/** The folder that a path belongs to. */
export const folderOf = (path: string): string | undefined =>
  Object.keys(suitesOf).find((folder) => path === folder || path.startsWith(`${folder}/`));

export const suitesFor = (path: string): readonly string[] =>
  suitesOfFile[path] ?? suitesOf[folderOf(path) ?? ''] ?? [];
