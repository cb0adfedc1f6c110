/** The suites that belong to each folder, the quickest first: each test runs again for every mutant that it reaches. */
export const suitesOf: Readonly<Record<string, readonly string[]>> = {
  'src/lock': ['test/unit/lock'],
  'src/session': ['test/unit/session', 'test/property/deadlock.test.ts'],
  'src/multi': ['test/unit/multi'],
  'src/record': ['test/unit/record'],
  'src/service': ['test/unit/service', 'test/unit/session', 'test/unit/client'],
  'src/store': ['test/unit/store', 'test/contract'],
  'src/notify': ['test/unit/notify'],
  'src/client': ['test/unit/client', 'test/unit/opentelemetry'],
  'src/http': ['test/unit/http', 'test/integration/http-contract.test.ts'],
  'src/contract': ['test/unit/contract', 'test/unit/http', 'test/integration/openapi.test.ts'],
  'src/guards': ['test/unit/guards', 'test/property/guards-dynamodb.test.ts', 'test/property/guards-s3.test.ts'],
  'src/middleware': ['test/unit/client'],
  'src/local': ['test/unit/local'],
  infra: ['test/infra'],
};

/** The folder that a path belongs to. */
export const folderOf = (path: string): string | undefined =>
  Object.keys(suitesOf).find((folder) => path === folder || path.startsWith(`${folder}/`));

export const suitesFor = (path: string): readonly string[] => suitesOf[folderOf(path) ?? ''] ?? [];
