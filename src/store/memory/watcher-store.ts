import type { Watcher, WatcherStore } from '../watcher-store.ts';

/** Watchers in memory, for simulation and for users' own tests. */
export class MemoryWatchers implements WatcherStore {
  readonly #watchers = new Map<string, { readonly watcher: Watcher; welcomed: boolean }>();

  get size(): number {
    return this.#watchers.size;
  }

  add(watcher: Watcher): Promise<void> {
    this.#watchers.set(watcher.connectionId, { watcher, welcomed: false });
    return Promise.resolve();
  }

  welcome({ connectionId }: Watcher): Promise<boolean> {
    const found = this.#watchers.get(connectionId);
    if (found !== undefined) found.welcomed = true;
    return Promise.resolve(found !== undefined);
  }

  welcomed(namespace: string): Promise<readonly Watcher[]> {
    const found = [...this.#watchers.values()].filter(({ watcher, welcomed }) => {
      return welcomed && watcher.namespace === namespace && watcher.subject !== 'nothing';
    });
    return Promise.resolve(found.map(({ watcher }) => watcher));
  }

  /** For tickets and parked waits, which know connections by their id. */
  find(connectionId: string): Watcher | undefined {
    return this.#watchers.get(connectionId)?.watcher;
  }

  remove(connectionId: string): Promise<void> {
    this.#watchers.delete(connectionId);
    return Promise.resolve();
  }
}
