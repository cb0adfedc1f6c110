/** What the page knows and does. The views draw it, and call it when somebody clicks. */
import { LockBook, ordered, type Shown, type SortBy, settled } from '../model/book.ts';
import { type EventType, type Happening, happeningOf } from '../model/events.ts';
import { Feed } from '../model/feed.ts';
import { brokenCycleOf, type Cycle } from '../model/wait-graph.ts';
import { addressOf, type Route, readRoute } from './route.ts';
import { type About, type AskError, Link, type LinkState, type RecordShown, server } from './server.ts';

/** A row that is seen and held is looked at this often: renewals make no events. */
const lookEveryMs = 4_000;
/** After an event the lock is looked at once things have calmed down a little. */
const lookSoonMs = 120;
/** Finds what no event told of, such as leases that ran out unnoticed. Rare: it reads every lock. */
const listEveryMs = 60_000;
/** Looked at in one request. */
const looksMax = 60;
/** Histories read for a small picture, and for the lock that is looked at closely. */
const historyOfRow = 80;
const historyOfOne = 500;
const historiesAtOnce = 3;
/** After a gap, the history of so many locks is read for the feed. */
const catchUpMax = 40;
/** A page in the background gives its connection back: browsers have few of them for one host. */
const hiddenMs = 60_000;
const brokenCyclesKept = 5;

export interface RecordState {
  readonly key: string;
  readonly record: RecordShown | null;
  readonly error: AskError | null;
  readonly readAt: number;
}

export interface Revoking {
  readonly lock: string;
  readonly fence: number;
  readonly owner: string;
  readonly error: string | null;
  readonly busy: boolean;
}

export class App {
  readonly book = new LockBook();
  readonly feed = new Feed();
  about: About | null = null;
  route: Route;
  link: LinkState = 'connecting';
  /** Since when what is shown may be old; null while it is live. */
  staleSince: number | null = null;
  /** Why nothing can be shown. */
  refusal: AskError | null = null;
  /** Why the last question failed, while the page keeps what it has. */
  trouble: AskError | null = null;
  isListed = false;
  isComplete = true;
  lastEventAt = 0;
  brokenCycles: Cycle[] = [];
  record: RecordState | null = null;
  revoking: Revoking | null = null;
  notice = '';
  windowMs = 5 * 60_000;
  feedTypes = new Set<EventType>();
  feedText = '';
  /** Names in the order shown. */
  order: string[] = [];
  /** Which of them are seen now. */
  seen: readonly string[] = [];
  isPointedAt = false;
  readonly #draw: () => void;
  #link: Link | undefined;
  #offsetMs = 0;
  #looking = false;
  #lookTimer: ReturnType<typeof setTimeout> | undefined;
  #listTimer: ReturnType<typeof setTimeout> | undefined;
  #hiddenTimer: ReturnType<typeof setTimeout> | undefined;
  #orderedFor = '';
  #orderedAt = 0;
  #histories = new Set<string>();
  #listFailures = 0;

  constructor(draw: () => void, hash: string) {
    this.#draw = draw;
    this.route = readRoute(hash, '');
  }

  /** The time by the clock that events are stamped with. */
  now(): number {
    return Date.now() + this.#offsetMs;
  }

  redraw(): void {
    this.#draw();
  }

  async start(): Promise<void> {
    try {
      this.about = await server.about();
      this.refusal = null;
      this.go(readRoute(location.hash, this.about.namespace));
    } catch (error) {
      this.refusal = error as AskError;
      // The token is missing until somebody brings it; a console that restarts is waited for.
      if (this.refusal.status !== 401) setTimeout(() => void this.start(), 2_000);
      this.#draw();
    }
  }

  /** Shows what the address says. */
  go(route: Route): void {
    const changed = route.namespace !== this.route.namespace || this.#link === undefined;
    const before = this.route;
    this.route = route;
    const isOne = route.view === 'locks' && route.name !== '';
    this.book.focus = isOne ? route.name : null;
    if (changed) this.#enter(route.namespace);
    if (isOne && (changed || before.name !== route.name || before.view !== 'locks')) void this.#openLock(route.name);
    if (route.view === 'records') void this.readRecord(route.name);
    if (route.view === 'sessions') this.lookSoon();
    this.#orderedFor = '';
    this.#draw();
  }

  navigate(route: Partial<Route>): void {
    location.hash = addressOf({ namespace: this.route.namespace, view: this.route.view, ...route });
  }

  /** Filters stand in the address too, without a step in the browser's history for each letter. */
  setQuery(query: Record<string, string>): void {
    const { namespace, view, name } = this.route;
    this.route = { ...this.route, query: { ...this.route.query, ...query } };
    history.replaceState(null, '', addressOf({ namespace, view, name, query: this.route.query }));
    this.#orderedFor = '';
    this.#draw();
  }

  get wanted() {
    const { prefix = '', show = 'all', sort = 'busy' } = this.route.query;
    return { prefix, shown: show as Shown, sortBy: sort as SortBy };
  }

  /** The order of rows. It changes only now and then, and not under somebody's pointer or focus. */
  arrange(): readonly string[] {
    const key = `${this.route.namespace} ${JSON.stringify(this.wanted)}`;
    const now = this.now();
    const isNew = key !== this.#orderedFor;
    const isDue = now - this.#orderedAt > 2_000;
    if (isNew || this.order.length === 0 || (isDue && !this.isPointedAt)) {
      this.order = ordered(this.book, this.wanted, now);
      this.#orderedFor = key;
      this.#orderedAt = now;
    } else if (isDue || this.book.size !== this.#sizeArranged) {
      this.order = settled(this.order, ordered(this.book, this.wanted, now));
      this.#orderedAt = now;
    }
    this.#sizeArranged = this.book.size;
    return this.order;
  }
  #sizeArranged = 0;

  #enter(namespace: string): void {
    this.#link?.close();
    this.book.clear();
    this.feed.clear();
    this.brokenCycles = [];
    this.isListed = false;
    this.order = [];
    this.link = 'connecting';
    this.staleSince = null;
    this.trouble = null;
    this.#histories.clear();
    document.title = `${namespace} · Holdfast console`;
    this.#connect(namespace);
    void this.list();
  }

  #connect(namespace: string): void {
    this.#link = new Link(namespace, {
      events: (events) => this.#take(events.map((event) => happeningOf(event, event.lock))),
      state: (state, missed) => this.#setLink(state, missed),
    });
  }

  #setLink(state: LinkState, missed: boolean): void {
    this.link = state;
    if (state === 'live' || state === 'unwatched') {
      if (missed || this.staleSince !== null || !this.isListed) void this.list(true);
      this.staleSince = null;
    } else this.staleSince ??= this.now();
    // The console may have been restarted with another token. A request shows it.
    if (state === 'lost')
      server.about().then(
        () => undefined,
        (error: AskError) => this.#failed(error),
      );
    this.#draw();
  }

  #take(events: readonly Happening[]): void {
    for (const event of events) {
      const cycle = brokenCycleOf(this.book, event);
      if (cycle !== undefined) this.brokenCycles = [cycle, ...this.brokenCycles].slice(0, brokenCyclesKept);
      this.book.takeEvent(event);
      this.lastEventAt = Math.max(this.lastEventAt, event.at);
    }
    this.feed.take(events);
    this.lookSoon();
    this.#draw();
  }

  /** Reads the list. After a gap also what was missed, from the history of each lock that has changed. */
  async list(catchUp = false): Promise<void> {
    clearTimeout(this.#listTimer);
    const { namespace } = this.route;
    const since = this.lastEventAt;
    try {
      const { locks, complete, at } = await server.list(namespace);
      if (namespace !== this.route.namespace) return;
      this.#setClock(at);
      const changed = this.book.takeList(locks, at);
      this.isListed = true;
      this.isComplete = complete;
      this.trouble = null;
      this.#listFailures = 0;
      this.#draw();
      this.lookSoon();
      if (catchUp) await this.#catchUp(namespace, changed, since);
    } catch (error) {
      this.#failed(error as AskError);
      this.#listFailures += 1;
    }
    const delayMs = this.#listFailures === 0 ? listEveryMs : Math.min(8_000, 500 * 2 ** this.#listFailures);
    this.#listTimer = setTimeout(() => void this.list(catchUp && this.#listFailures > 0), delayMs);
  }

  async #catchUp(namespace: string, changed: readonly string[], since: number): Promise<void> {
    const names = new Set([...(this.book.focus === null ? [] : [this.book.focus]), ...changed]);
    for (const lock of [...names].slice(0, catchUpMax)) {
      const { events } = await server.history(namespace, lock, historyOfRow);
      if (namespace !== this.route.namespace) return;
      const happenings = events.map((event) => happeningOf(event, lock)).reverse();
      this.book.takeHistory(lock, happenings);
      const missed = since === 0 ? [] : happenings.filter(({ at }) => at >= since);
      this.feed.take(missed);
      for (const { at } of missed) this.lastEventAt = Math.max(this.lastEventAt, at);
    }
    this.#draw();
  }

  /** Looks again at what is seen. */
  lookSoon(): void {
    this.#lookTimer ??= setTimeout(() => {
      this.#lookTimer = undefined;
      void this.#look();
    }, lookSoonMs);
  }

  #worthALook(): string[] {
    const now = this.now();
    const { view, name } = this.route;
    const names =
      view === 'sessions'
        ? this.book
            .all()
            .filter(({ queueDepth, isGuess }) => queueDepth > 0 || isGuess)
            .map(({ lock }) => lock)
        : view === 'locks' && name !== ''
          ? [name]
          : this.seen;
    return names
      .filter((lock) => {
        const known = this.book.get(lock);
        if (known === undefined) return name === lock;
        const isDue = now - known.lookedAt > lookEveryMs && (known.holders.length > 0 || known.queueDepth > 0);
        const hasEnded =
          known.holders.some(({ endsAt }) => endsAt !== null && endsAt < now) && now - known.lookedAt > 400;
        return known.isGuess || isDue || hasEnded;
      })
      .slice(0, looksMax);
  }

  async #look(): Promise<void> {
    if (document.hidden || this.#looking || this.about === null) return;
    const { namespace } = this.route;
    const names = this.#worthALook();
    this.#readHistories();
    if (names.length === 0) return;
    this.#looking = true;
    try {
      const { locks, at } = await server.look(namespace, names);
      if (namespace !== this.route.namespace) return;
      this.#setClock(at);
      for (const seen of locks) this.book.takeLook(seen, at);
      this.trouble = null;
    } catch (error) {
      this.#failed(error as AskError);
    } finally {
      this.#looking = false;
      this.#draw();
    }
  }

  /** The small pictures of the rows that are seen reach back before this page was opened. */
  #readHistories(): void {
    const { namespace } = this.route;
    for (const lock of this.seen) {
      if (this.#histories.size >= historiesAtOnce) return;
      const known = this.book.get(lock);
      if (known === undefined || known.hasHistory || this.#histories.has(lock)) continue;
      this.#histories.add(lock);
      void this.#readHistory(namespace, lock, historyOfRow).finally(() => {
        this.#histories.delete(lock);
        this.#readHistories();
      });
    }
  }

  async #readHistory(namespace: string, lock: string, limit: number): Promise<void> {
    try {
      const { events } = await server.history(namespace, lock, limit);
      if (namespace !== this.route.namespace) return;
      this.book.takeHistory(lock, events.map((event) => happeningOf(event, lock)).reverse());
    } catch (error) {
      this.#failed(error as AskError);
    }
    this.#draw();
  }

  async #openLock(lock: string): Promise<void> {
    const { namespace } = this.route;
    this.windowMs = 5 * 60_000;
    await Promise.all([this.#look(), this.#readHistory(namespace, lock, historyOfOne)]);
  }

  async readRecord(key: string): Promise<void> {
    const { namespace } = this.route;
    if (key === '') {
      this.record = null;
      return;
    }
    const of = (record: RecordShown | null, error: AskError | null) => {
      const isStill = this.route.view === 'records' && this.route.name === key && this.route.namespace === namespace;
      if (isStill) this.record = { key, record, error, readAt: this.now() };
      this.#draw();
    };
    await server.record(namespace, key).then(
      (record) => of(record, null),
      (error: AskError) => of(null, error),
    );
  }

  askRevoke(lock: string, fence: number, owner: string): void {
    this.revoking = { lock, fence, owner, error: null, busy: false };
    this.#draw();
  }

  cancelRevoke(): void {
    this.revoking = null;
    this.#draw();
  }

  async revoke(reason: string): Promise<void> {
    const asked = this.revoking;
    if (asked === null || asked.busy) return;
    this.revoking = { ...asked, busy: true, error: null };
    this.#draw();
    try {
      await server.revoke(this.route.namespace, asked.lock, { fence: asked.fence, reason });
      this.revoking = null;
      this.say(`Revoked: ${asked.owner} no longer holds ${asked.lock}.`);
      this.lookSoon();
    } catch (error) {
      this.revoking = { ...asked, busy: false, error: (error as AskError).message };
    }
    this.#draw();
  }

  /** Said to everybody, screen readers included, and gone after a while. */
  say(text: string): void {
    this.notice = text;
    this.#draw();
    setTimeout(() => {
      if (this.notice === text) this.notice = '';
      this.#draw();
    }, 6_000);
  }

  /** Runs twice a second. */
  tick(): void {
    if (document.hidden) return;
    if (this.#worthALook().length > 0 || this.seen.some((lock) => this.book.get(lock)?.hasHistory === false))
      this.lookSoon();
    const { record } = this;
    if (record !== null && this.now() - record.readAt > lookEveryMs && this.route.view === 'records') {
      this.record = { ...record, readAt: this.now() };
      void this.readRecord(record.key);
    }
    this.#draw();
  }

  hidden(isHidden: boolean): void {
    clearTimeout(this.#hiddenTimer);
    if (isHidden) {
      this.#hiddenTimer = setTimeout(() => {
        this.#link?.close();
        this.#link = undefined;
        clearTimeout(this.#listTimer);
      }, hiddenMs);
    } else if (this.#link === undefined && this.about !== null) {
      this.staleSince ??= this.now();
      this.#connect(this.route.namespace);
    }
  }

  #setClock(at: number): void {
    const offsetMs = at - Date.now();
    // Below this it is the time that the answer took. Beyond, the console runs on a machine with another clock.
    this.#offsetMs = Math.abs(offsetMs) > 2_000 ? offsetMs : 0;
  }

  #failed(error: AskError): void {
    if (error.status === 401) this.refusal = error;
    this.trouble = error;
    this.#draw();
  }
}
