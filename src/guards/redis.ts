/**
 * The guard for Redis and Valkey: a Lua script, which the server runs as one atomic step, checks the floor, raises it
 * and writes.
 *
 * The floor has its own key, so that it stays when the value expires or is deleted. Fences are compared as Lua numbers.
 * These are doubles, which hold every integer up to 2^53 exactly. Fences are stored and returned as the digits that
 * arrived, because Lua would print a large number as 9.007199254741e+15.
 */
import { checkFence, readFloor, type Stale } from './fence.ts';

/** @example `const argument: RedisArgument = Buffer.from([0xff]);` */
export type RedisArgument = string | Uint8Array;

/**
 * A script with its keys and arguments. Give it to {@link runFenced}, or take {@link evalArguments} to any client.
 *
 * @example
 * ```ts
 * const call: FencedCall = fencedSet({ key: 'report', value: 'done', fence: grant.fence });
 * ```
 */
export interface FencedCall {
  readonly lua: string;
  readonly keys: readonly string[];
  readonly arguments: readonly RedisArgument[];
  readonly fence: number;
}

/**
 * The result of the call. `reply` is what the guarded part of the script returned.
 *
 * @example
 * ```ts
 * const outcome: RedisOutcome = readReply(call, await redis.eval(…));
 * ```
 */
export type RedisOutcome = { readonly kind: 'written'; readonly reply: unknown } | Stale;

/**
 * Wraps a Lua script so that it runs only if the fence is not stale. The body sees its own `KEYS` and `ARGV`, numbered
 * from 1, as if it ran alone.
 *
 * The floor is raised before the body runs. Redis does not undo a script that fails half-way, and a floor that was
 * raised too early refuses stale writers only.
 *
 * @example
 * ```ts
 * const lua = fenceScript(`return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)`);
 * const call = fencedCall({ lua, resource: 'stock', keys: ['stock'], arguments: ['apples'], fence: grant.fence });
 * ```
 */
export function fenceScript(body: string): string {
  return `local fence = tonumber(ARGV[1])
local stored = redis.call('GET', KEYS[1])
local floor = tonumber(stored or '0')
if not floor then return redis.error_reply('ERR the floor at ' .. KEYS[1] .. ' is not an integer') end
if floor > fence then return {0, stored} end
redis.call('SET', KEYS[1], ARGV[1])
local function guarded(KEYS, ARGV)
${body}
end
return {1, ARGV[1], guarded({unpack(KEYS, 2)}, {unpack(ARGV, 2)})}
`;
}

/** PX is sent only if a time was given, because a zero would be an error. */
const setLua = fenceScript(`if ARGV[2] then return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return redis.call('SET', KEYS[1], ARGV[1])`);

const raiseLua = fenceScript('return true');

/**
 * The key of a resource's floor, in the same cluster slot as the resource's own key: Redis hashes the part in braces.
 *
 * @example
 * ```ts
 * floorKey('report'); // {report}:fence
 * floorKey('{tenant-7}:report'); // {tenant-7}:report:fence
 * ```
 */
export function floorKey(resource: string): string {
  if (/^[^{]*\{[^}]+\}/.test(resource)) return `${resource}:fence`;
  if (resource === '' || resource.includes('}')) {
    throw new TypeError(
      `Expected a key without "}" or with a hash tag such as {tag}; got ${JSON.stringify(resource)}.`,
    );
  }
  return `{${resource}}:fence`;
}

/**
 * Calls a script made by {@link fenceScript}. In a cluster all `keys` must share the slot of `resource`.
 *
 * @example
 * ```ts
 * fencedCall({ lua, resource: 'stock', keys: ['stock'], arguments: ['apples'], fence: grant.fence });
 * ```
 */
export function fencedCall(call: {
  readonly lua: string;
  readonly resource: string;
  readonly keys?: readonly string[];
  readonly arguments?: readonly RedisArgument[];
  readonly fence: number;
}): FencedCall {
  const fence = checkFence(call.fence);
  return {
    lua: call.lua,
    keys: [floorKey(call.resource), ...(call.keys ?? [])],
    arguments: [String(fence), ...(call.arguments ?? [])],
    fence,
  };
}

/**
 * `SET key value` unless a later holder has written. The value may have an end (`ttlMs`); its floor has none.
 *
 * @example
 * ```ts
 * const outcome = await runFenced(send, fencedSet({ key: 'report', value: 'done', fence: grant.fence, ttlMs: 60_000 }));
 * ```
 */
export function fencedSet(set: {
  readonly key: string;
  readonly value: RedisArgument;
  readonly fence: number;
  readonly ttlMs?: number;
}): FencedCall {
  const end = set.ttlMs === undefined ? [] : [String(set.ttlMs)];
  return fencedCall({
    lua: setLua,
    resource: set.key,
    keys: [set.key],
    arguments: [set.value, ...end],
    fence: set.fence,
  });
}

/**
 * Checks and raises a floor, and does nothing else. A write after it is a second step: a later holder may write in
 * between. So use this at the beginning of a stage of work, and use {@link fenceScript} to protect a write.
 *
 * @example
 * ```ts
 * throwIfStale(await runFenced(send, raiseRedisFloor({ resource: 'nightly-import', fence: grant.fence })));
 * ```
 */
export function raiseRedisFloor(floor: { readonly resource: string; readonly fence: number }): FencedCall {
  return fencedCall({ lua: raiseLua, ...floor });
}

/**
 * The words of an EVAL, or of an EVALSHA if the script's SHA-1 is given. Any client that can send a raw command can use
 * them.
 *
 * @example
 * ```ts
 * await ioredis.call(...evalArguments(call));
 * await nodeRedis.sendCommand(evalArguments(call, sha1));
 * ```
 */
export function evalArguments(call: FencedCall, sha1?: string): [string, ...RedisArgument[]] {
  const script = sha1 === undefined ? (['EVAL', call.lua] as const) : (['EVALSHA', sha1] as const);
  return [script[0], script[1], String(call.keys.length), ...call.keys, ...call.arguments];
}

/**
 * Reads the reply of a fenced script.
 *
 * @example
 * ```ts
 * const outcome = readReply(call, await ioredis.call(...evalArguments(call)));
 * ```
 */
export function readReply(call: FencedCall, reply: unknown): RedisOutcome {
  const [written, floor, result] = Array.isArray(reply) ? reply : [];
  if (Number(written) === 1) return { kind: 'written', reply: result ?? null };
  if (Number(written) !== 0)
    throw new TypeError(`Expected the reply of a fenced script; got ${JSON.stringify(reply)}.`);
  // Clients that answer in buffers give the digits as bytes.
  const digits = floor instanceof Uint8Array ? new TextDecoder().decode(floor) : floor;
  return { kind: 'stale', fence: call.fence, floor: readFloor(digits, `key ${call.keys[0]}`) };
}

/**
 * Runs a fenced script by its digest. It sends the script itself only if the server does not know it, for example after
 * a restart.
 *
 * @param send sends one raw command and rejects on an error reply whose message starts with its code, as all common
 * clients do.
 *
 * @example
 * ```ts
 * const outcome = await runFenced((words) => nodeRedis.sendCommand(words), fencedSet({ key: 'report', value: 'done', fence: grant.fence }));
 * ```
 */
export async function runFenced(
  send: (words: [string, ...RedisArgument[]]) => Promise<unknown>,
  call: FencedCall,
): Promise<RedisOutcome> {
  const sha1 = await scriptSha1(call.lua);
  try {
    return readReply(call, await send(evalArguments(call, sha1)));
  } catch (error) {
    if (!(error instanceof Error && error.message.includes('NOSCRIPT'))) throw error;
    return readReply(call, await send(evalArguments(call)));
  }
}

async function scriptSha1(lua: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-1', new TextEncoder().encode(lua));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
