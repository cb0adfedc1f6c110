/** Everything that was started, to be stopped in reverse. */
export class Started {
  readonly #stops: (() => Promise<unknown>)[] = [];

  add<Thing extends { stop(): Promise<unknown> }>(thing: Thing): Thing {
    this.#stops.push(() => thing.stop());
    return thing;
  }

  async stop(): Promise<void> {
    for (const stop of this.#stops.splice(0).toReversed()) await stop();
  }
}
