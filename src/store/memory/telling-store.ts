import type { LockKey } from '../lock-store.ts';
import type { TellingStore } from '../telling-store.ts';

/** Tellings in memory, for simulation and for users' own tests. */
export class MemoryTellings implements TellingStore {
  readonly #told = new Set<string>();

  wasTold(key: LockKey, fence: number): Promise<boolean> {
    return Promise.resolve(this.#told.has(idOf(key, fence)));
  }

  noteTold(key: LockKey, fence: number): Promise<void> {
    this.#told.add(idOf(key, fence));
    return Promise.resolve();
  }
}

const idOf = ({ namespace, name }: LockKey, fence: number): string => `${namespace}/${name}/${fence}`;
