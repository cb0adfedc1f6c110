/** What a page may ask the service. It only reads, except for a revocation if that is allowed. */
import { type Holdfast, HoldfastError, type LockEvent, type LockSummary, type LockView } from '../../client/index.ts';

/** More rows than a person reads. After that, the search by prefix is better. It is five full pages of the service. */
const locksMax = 5_000;
/** The service's largest page. */
const pageSize = 1_000;
/** Nobody can read a timeline with more events. */
const historyMax = 1_000;
const historyDefault = 100;
/** The largest screens show this many rows. */
const lookMax = 100;
/** A low number, because the console must not load the service. */
const looksAtOnce = 8;

/** The flag with which a console may change something, in the commands that start one, and what is said of it. */
export const permission = {
  name: 'allow-revoke',
  meaning: 'Let the console revoke leases; without this flag it only reads.',
  words: 'may revoke leases',
  refusal: 'This console reads only. Start it with --allow-revoke to revoke leases.',
} as const;

export interface Question {
  readonly client: Holdfast;
  /** The path after the namespace: `locks`, `wallet:42`, `history`. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
  /** Set if the request changes something. */
  readonly body?: unknown;
  readonly signal: AbortSignal;
}

/** Undefined if there is no such request. */
export function ask(question: Question): Promise<object> | undefined {
  const { client, path, query, signal } = question;
  const [kind, name = '', action] = path;
  if (question.body !== undefined) return kind === 'locks' && action === 'revoke' ? revoke(question) : undefined;
  if (kind === 'locks' && path.length === 1) return list(client, query.get('prefix') ?? '', signal);
  if (kind === 'locks' && path.length === 2) return client.inspect(name, { signal });
  if (kind === 'locks' && path.length === 3 && action === 'history') return history(question, name);
  if (kind === 'look' && path.length === 1) return look(client, query.getAll('lock').slice(0, lookMax), signal);
  if (kind === 'records' && path.length === 2) return read(client, name, signal);
  return undefined;
}

async function list(client: Holdfast, prefix: string, signal: AbortSignal): Promise<object> {
  const locks: LockSummary[] = [];
  for await (const lock of client.list({ ...(prefix === '' ? {} : { prefix }), pageSize, signal })) {
    if (locks.length >= locksMax) return { locks, complete: false };
    locks.push(lock);
  }
  return { locks, complete: true };
}

/** Several locks at once, because a page asks for all visible locks in one request. */
async function look(client: Holdfast, names: readonly string[], signal: AbortSignal): Promise<object> {
  const views: LockView[] = [];
  const left = [...names];
  const lookOn = async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      views.push(await client.inspect(name, { signal }));
    }
  };
  await Promise.all(Array.from({ length: looksAtOnce }, lookOn));
  return { locks: views };
}

async function history({ client, query, signal }: Question, name: string): Promise<object> {
  const asked = Number(query.get('limit') ?? historyDefault);
  const limit = Math.min(historyMax, Math.max(1, Number.isInteger(asked) ? asked : historyDefault));
  const events: LockEvent[] = [];
  for await (const event of client.history(name, { pageSize: Math.min(limit, 200), signal })) {
    events.push(event);
    if (events.length >= limit) break;
  }
  return { events };
}

async function read(client: Holdfast, key: string, signal: AbortSignal): Promise<object> {
  const record = await client.record(key).get({ signal });
  if (record === undefined) throw new HoldfastError('not-found', `There is no record ${key}.`);
  return record;
}

async function revoke({ client, path, body, signal }: Question): Promise<object> {
  const { fence, reason } = body as { fence?: unknown; reason?: unknown };
  if (typeof fence !== 'number' || typeof reason !== 'string' || reason.trim() === '') {
    throw new HoldfastError('invalid-request', 'A revocation needs a fence and a reason.');
  }
  await client.revoke(path[1] ?? '', { fence, reason: reason.trim(), signal });
  return { revoked: true };
}
