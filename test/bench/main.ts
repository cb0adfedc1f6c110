/** `npm run bench [engine]`: ratios from one run. Each says what it is divided by; none is a time. */

import { startEngine } from '../../src/local/engine.ts';
import { ensureTable } from '../../src/local/table.ts';
import { createDynamoDBClient, documentClient } from '../../src/store/dynamodb/client.ts';
import { spawnService } from './bench-service.ts';
import { benchImport } from './import-bench.ts';
import { benchCycle, benchHandOff, benchRequests, type Row } from './lock-bench.ts';

const region = 'us-east-1';
const choice = (process.argv[2] ?? 'auto') as 'auto' | 'dynamodb-local' | 'dynoxide';
const engine = await startEngine({ engine: choice, memory: true, region });
const address = { endpoint: engine.endpoint, region, credentials: engine.credentials };
const raw = createDynamoDBClient(address);
const client = documentClient(raw);
const table = 'bench';
try {
  await ensureTable(raw, table);
  const service = await spawnService(engine, table);
  try {
    console.log(`engine: ${engine.description}, node ${process.version}`);
    const print = (rows: readonly Row[]) => {
      for (const { what, figure } of rows) console.log(`${figure.padStart(8)}  ${what}`);
    };
    print(await benchCycle(service, client, table));
    for (const waiters of [1, 10, 50, 200]) print(await benchHandOff(service, client, table, waiters));
    print(await benchImport());
    const counted = createDynamoDBClient(address);
    for (const waiters of [1, 10, 50, 200]) print(await benchRequests(counted, table, waiters));
  } finally {
    await service.stop();
  }
} finally {
  await engine.stop();
}
