import type { TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { type IGrantable, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { tableShape } from '../src/store/dynamodb/table.ts';
import { everyNamespace } from './access.ts';
import type { FunctionName } from './function-code.ts';

type IndexKey = keyof typeof tableShape.indexes;

export interface TableAccess {
  /** On items of the table. A transaction is allowed by what it does to each item. */
  readonly items: readonly string[];
  readonly queries: readonly IndexKey[];
  /** Patterns that a partition key must match one of. Absent: any. */
  readonly leadingKeys?: readonly string[];
}

/** Reads and conditional writes of locks, and of the sessions that bound them. */
const lockItems = ['GetItem', 'BatchGetItem', 'PutItem', 'UpdateItem'] as const;

const everyRoute: TableAccess = { items: [...lockItems, 'Query'], queries: ['listing', 'bySession'] };

/** What each function does with the table, and no more. Nothing is ever scanned. */
export const tableAccess: Record<FunctionName, TableAccess> = {
  acquire: everyRoute,
  http: everyRoute,
  notifier: { items: lockItems, queries: [] },
  publisher: {
    items: ['GetItem', 'UpdateItem', 'BatchWriteItem', 'Query'],
    queries: [],
    // It shows what happened and changes no lock.
    leadingKeys: ['*/history/*', '*/watchers', '*/sockets', '#connection/*'],
  },
  reaper: { items: lockItems, queries: ['awaited'] },
  websocket: {
    // A connection that ends makes its waits absent, which is a conditional write to each lock.
    items: [...lockItems, 'BatchWriteItem', 'Query'],
    queries: [],
    leadingKeys: ['#connection/*', '#ticket/*', '*/watchers', '*/sockets', '*/waits/*', '*/lock/*', '*/session/*'],
  },
};

/** For processes that use the server library on the table: what the HTTP function may, in one namespace or in all. */
export const directAccess = (namespace: string): TableAccess => ({
  ...tableAccess.http,
  // Keys, of items and of indexes, start with the namespace.
  ...(namespace === everyNamespace ? {} : { leadingKeys: [`${namespace}/*`] }),
});

export function allowTableAccess(table: TableV2, grantee: IGrantable, access: TableAccess): void {
  const { leadingKeys } = access;
  const scoped = leadingKeys && { 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': leadingKeys } };
  const allow = (actions: readonly string[], path: string, conditions: Record<string, unknown> | undefined) =>
    grantee.grantPrincipal.addToPrincipalPolicy(
      new PolicyStatement({
        actions: actions.map((action) => `dynamodb:${action}`),
        resources: [`${table.tableArn}${path}`],
        ...(conditions === undefined ? {} : { conditions }),
      }),
    );
  allow(access.items, '', scoped);
  for (const index of access.queries) {
    // A session's id, which can't be guessed, is the whole key there: it has no namespace in front.
    allow(['Query'], `/index/${tableShape.indexes[index].name}`, index === 'bySession' ? undefined : scoped);
  }
  table.encryptionKey?.grantEncryptDecrypt(grantee);
}
