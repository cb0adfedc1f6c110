/** Takes a lock in its own session, says so, and waits to be killed. */
import { connectZookeeper } from '../stores/zookeeper.ts';
import { awaitTurn } from './zookeeper.ts';

const [host, name, sessionMs] = process.argv.slice(2);
if (host === undefined || name === undefined) throw new Error('Expected a host and the name of a lock.');
const client = await connectZookeeper(host, Number(sessionMs));
await awaitTurn(client, name, () => {});
console.log('held');
