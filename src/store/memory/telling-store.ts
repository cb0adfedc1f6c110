import type { LockKey } from '../lock-store.ts';
import { type Telling, type TellingStore, untold } from '../telling-store.ts';

/** Tellings in memory, for simulation and for users' own tests. */
export class MemoryTellings implements TellingStore {
  readonly #tellings = new Map<string, Telling>();

  async begin(key: LockKey, fence: number): Promise<Telling> {
    const { tries, told } = await this.read(key, fence);
    const telling = { tries: tries + 1, told };
    this.#tellings.set(idOf(key, fence), telling);
    return telling;
  }

  read(key: LockKey, fence: number): Promise<Telling> {
    return Promise.resolve(this.#tellings.get(idOf(key, fence)) ?? untold);
  }

  async noteTold(key: LockKey, fence: number): Promise<void> {
    const { tries } = await this.read(key, fence);
    this.#tellings.set(idOf(key, fence), { tries, told: true });
  }
}

const idOf = ({ namespace, name }: LockKey, fence: number): string => `${namespace}/${name}/${fence}`;
