import type { TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { type IGrantable, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { tableShape } from '../src/table/shape.ts';
import { everyNamespace } from './access.ts';
import type { FunctionName } from './function-code.ts';

type IndexKey = keyof typeof tableShape.indexes;

export interface TableAccess {
  /** Actions on items of the table. A transaction needs the permission for what it does to each item. */
  readonly items: readonly string[];
  readonly queries: readonly IndexKey[];
  /** A partition key must match one of these patterns. If missing, any key is allowed. */
  readonly leadingKeys?: readonly string[];
}

/** Reads and conditional writes of locks and of their sessions. */
const lockItems = ['GetItem', 'BatchGetItem', 'PutItem', 'UpdateItem'] as const;

const everyRoute: TableAccess = { items: [...lockItems, 'Query'], queries: ['listing', 'bySession'] };

/** What each function does with the table. It gets no other permission. Nothing is ever scanned. */
export const tableAccess: Record<FunctionName, TableAccess> = {
  acquire: everyRoute,
  http: everyRoute,
  notifier: { items: lockItems, queries: [] },
  publisher: {
    items: ['GetItem', 'UpdateItem', 'BatchWriteItem', 'Query'],
    queries: [],
    // The publisher shows what happened. It changes no lock.
    leadingKeys: ['*/history/*', '*/watchers', '*/sockets', '#connection/*'],
  },
  reaper: { items: lockItems, queries: ['awaited'] },
  websocket: {
    // A connection that ends makes its waits absent. That is a conditional write to each lock.
    items: [...lockItems, 'BatchWriteItem', 'Query'],
    queries: [],
    leadingKeys: [
      ...['#connection/*', '#ticket/*', '*/watchers', '*/sockets', '*/waits/*'],
      // Most waits of a long queue are in pages.
      ...['*/lock/*', '*/page/*', '*/session/*'],
    ],
  },
};

/**
 * For processes that use the server library on the table: the permissions of the HTTP function, in one namespace or in
 * all.
 */
export const directAccess = (namespace: string): TableAccess => ({
  ...tableAccess.http,
  // The keys of items and of indexes begin with the namespace.
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
    // There the whole key is a session's id, which can't be guessed. It does not begin with a namespace.
    allow(['Query'], `/index/${tableShape.indexes[index].name}`, index === 'bySession' ? undefined : scoped);
  }
  table.encryptionKey?.grantEncryptDecrypt(grantee);
}
