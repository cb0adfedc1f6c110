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
    if (this.size > this.#sizeMax) super.delete(this.keys().next().value as Key);
    return this;
  }
}

/** The fields that have a value. A loop, because this runs for each claim of each item that is read. */
export function defined<Fields extends object>(fields: Fields) {
  const given: { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> } = {};
  for (const name in fields)
    if (fields[name] !== undefined) given[name] = fields[name] as NonNullable<(typeof given)[typeof name]>;
  return given;
}
