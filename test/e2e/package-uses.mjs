/**
 * What the users of the published package do, in a project of their own: run by each Node that the package supports, against a
 * service that the package itself serves. Prints what came of each as one line of JSON.
 */
import { ConditionalCheckFailedException, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, PutCommand } from '@aws-sdk/lib-dynamodb';
import middy from '@middy/core';
import { App, Stack } from 'aws-cdk-lib';
import { Holdfast } from 'holdfast';
import { LockService } from 'holdfast/cdk';
import { fenceDynamoDB } from 'holdfast/guards';
import { holdfastLock } from 'holdfast/middleware';
import { createDirect } from 'holdfast/server';
import { Twin } from 'holdfast/testing';

const { url, engine, region, table } = JSON.parse(process.argv[2] ?? '');
const warnings = [];
process.on('warning', ({ name }) => warnings.push(name));
const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
const locks = new Holdfast({ url, namespace: 'package', deadlineMs: 60_000 });

async function sdk() {
  const fence = await locks.withLock('one', (lock) => lock.fence);
  // More than ten at once: a listener too many would warn.
  const many = await Promise.all(Array.from({ length: 30 }, (_, n) => locks.acquire(`many-${n}`)));
  await Promise.all(many.map((lock) => lock.release()));
  const { value } = await locks.record('hits').update((hits = 0) => hits + 1);
  return fence > 0 && value === 1;
}

async function direct() {
  const own = createDirect({
    tableName: table,
    endpoint: engine.endpoint,
    region,
    credentials,
    namespace: 'package',
    deadlineMs: 60_000,
  });
  const fence = await own.withLock('direct', (lock) => lock.fence);
  await own.close();
  return fence > 0 && !(await locks.check('direct', fence)).valid;
}

async function twin() {
  const world = new Twin();
  await world.client().acquire('a', { leaseMs: 5_000, autoRenew: false });
  const waiting = world.client().acquire('a', { waitMs: 60_000 });
  return (await world.until(waiting)).isHeld();
}

async function middleware() {
  const handler = middy()
    .use(holdfastLock({ locks, name: 'handled' }))
    .handler((_event, { lock }) => lock.isHeld());
  return handler({}, { getRemainingTimeInMillis: () => 30_000 });
}

async function guards() {
  const client = new DynamoDBClient({ endpoint: engine.endpoint, region, credentials });
  const documents = DynamoDBDocumentClient.from(client);
  const put = (fence) => {
    const Item = { pk: 'own', sk: 'item' };
    return documents.send(new PutCommand(fenceDynamoDB({ Put: { TableName: table, Item } }, { fence }).Put));
  };
  await put(2);
  const refused = await put(1).catch((error) => error instanceof ConditionalCheckFailedException);
  client.destroy();
  return refused === true;
}

async function construct() {
  // test/infra checks the template against CloudFormation's schema. That would take five seconds for each Node.
  const app = new App({ builtinCloudFormationValidation: false });
  const stack = new Stack(app, 'Test');
  new LockService(stack, 'Locks');
  const { Resources } = app.synth().getStackByName('Test').template;
  return Object.values(Resources).some(({ Type }) => Type === 'AWS::Lambda::Function');
}

const uses = { sdk, direct, twin, middleware, guards, construct };
const results = {};
for (const [name, use] of Object.entries(uses)) {
  results[name] = await use().catch((error) => `${error.stack ?? error}`);
}
await locks.close();
console.log(JSON.stringify({ node: process.versions.node, results, warnings }));
