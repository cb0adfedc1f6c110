/**
 * Knows which locks the current async context holds by `withLock`, where the runtime can tell (Node's AsyncLocalStorage). A
 * nested `withLock` of the same lock would wait for itself until its wait is over.
 */
import { DeadlockError } from './errors.ts';

interface Holding {
  /** The service and the namespace: the same name elsewhere is another lock. */
  readonly scope: object;
  readonly name: string;
  readonly isHeld: () => boolean;
  readonly outer: Holding | undefined;
}

interface Storage {
  getStore(): Holding | undefined;
  run<T>(holding: Holding, work: () => T): T;
}

/** Found without an import, so that browsers and bundlers need not know it. Undefined where there is none. */
function findStorage(): Storage | undefined {
  const { process } = globalThis as {
    process?: { getBuiltinModule?: (name: string) => { AsyncLocalStorage?: new () => Storage } | undefined };
  };
  const Found = process?.getBuiltinModule?.('node:async_hooks')?.AsyncLocalStorage;
  return Found === undefined ? undefined : new Found();
}

let storage: Storage | undefined;
let isSearched = false;

/** Not while the module loads, so that importing it has no effect. */
function storageOf(): Storage | undefined {
  if (!isSearched) storage = findStorage();
  isSearched = true;
  return storage;
}

/** Runs the work of `withLock`. */
export function holding<T>(scope: object, name: string, isHeld: () => boolean, work: () => T): T {
  const found = storageOf();
  return found === undefined ? work() : found.run({ scope, name, isHeld, outer: found.getStore() }, work);
}

/** Throws if this context holds the whole lock already. */
export function refuseNested(scope: object, name: string): void {
  for (let held = storageOf()?.getStore(); held !== undefined; held = held.outer) {
    if (held.scope !== scope || held.name !== name || !held.isHeld()) continue;
    const message = `This code runs inside withLock('${name}') already, so waiting for ${name} would be waiting for itself. Use the lock that you hold, or another name.`;
    throw new DeadlockError(message, []);
  }
}
