/** A map that forgets its oldest entry when there are too many. An entry that is set again becomes the youngest. */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #sizeMax: number;

  constructor(sizeMax: number) {
    super();
    this.#sizeMax = sizeMax;
  }

  override set(key: Key, value: Value): this {
    super.delete(key);
    super.set(key, value);
    if (this.size > this.#sizeMax) {
      for (const oldest of this.keys()) {
        super.delete(oldest);
        break;
      }
    }
    return this;
  }
}
