/** Work that many ask for at the same time is done once. All who ask while it is under way get its result. */
export class SingleFlight<Result> {
  readonly #underWay = new Map<string, Promise<Result>>();

  /** The work with this id that is under way, if there is some. */
  joined(id: string): Promise<Result> | undefined {
    return this.#underWay.get(id);
  }

  async run(id: string, work: () => Promise<Result>): Promise<Result> {
    const earlier = this.#underWay.get(id);
    if (earlier !== undefined) return earlier;
    const own = work();
    this.#underWay.set(id, own);
    try {
      return await own;
    } finally {
      this.#underWay.delete(id);
    }
  }
}
