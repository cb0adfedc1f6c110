/** What the page knows about the locks of the namespace, and when it reads them again. */
import { LockBook, ordered, type Shown, type SortBy, settled } from '../model/book.ts';
import { type Happening, happeningOf } from '../model/events.ts';
import { Feed } from '../model/feed.ts';
import { brokenCycleOf, type Cycle } from '../model/wait-graph.ts';
import { ask, failed } from './asking.ts';
import { now, redraw, setClock } from './draw.ts';
import { name, namespace, query, view } from './route.ts';
import { askAbout, askHistory, askList, askLook, type LinkState, listen } from './server.ts';

/** A visible lock that is held is read this often, because renewals make no events. */
const lookEveryMs = 4_000;
/** After an event, the lock is read after this short pause, because more events may follow. */
const lookSoonMs = 120;
/** If a lease has expired, or only the length of the queue is known, the lock is read again after this time. */
const lookOldMs = 400;
/** The list finds changes without an event, such as leases that expired unnoticed. It is rare, because it reads every lock. */
const listEveryMs = 60_000;
/** Locks that are read in one request. */
const looksMax = 60;
/** Events that are read for a row's small picture, and for the lock that has its own view. */
const historyOfRow = 80;
const historyOfOne = 500;
const historiesAtOnce = 3;
/** After missed events, the history of this many locks is read for the feed. */
const catchUpMax = 40;
const brokenCyclesKept = 5;
/** Without a connection, the list is shown after this time. */
const unconnectedMs = 1_000;
/** Rows keep their order for this time, so people can read them. */
const orderMs = 2_000;

export const book = new LockBook();
export const feed = new Feed();
export let link: LinkState = 'connecting';
/** Since when the page may show old data. Null while it is live. */
export let staleSince: number | null = null;
export let isListed = false;
export let isComplete = true;
export let lastEventAt = 0;
export let brokenCycles: readonly Cycle[] = [];

let stopListening: (() => void) | undefined;
let listTimer: ReturnType<typeof setTimeout>;
let isLookDue = false;
let isLooking = false;
let listFailures = 0;
const historiesAsked = new Set<string>();

/** Forgets the namespace that was shown before, and starts with the new one. */
export function enter(): void {
  leave();
  book.clear();
  feed.clear();
  brokenCycles = [];
  isListed = false;
  lastEventAt = 0;
  link = 'connecting';
  staleSince = null;
  historiesAsked.clear();
  connect();
  // The list is read when the connection stands: what happens before is in the list, what happens later comes as an event.
  listTimer = setTimeout(() => void list(), unconnectedMs);
}

/** Closes the connection. */
export function leave(): void {
  stopListening?.();
  stopListening = undefined;
  clearTimeout(listTimer);
}

/** Connects again, if the connection was closed. */
export function comeBack(): void {
  if (stopListening) return;
  staleSince ??= now();
  connect();
}

function connect(): void {
  stopListening = listen(
    namespace,
    (events) => take(events.map((event) => happeningOf(event, event.lock))),
    (state, missed) => {
      link = state;
      if (state === 'live' || state === 'unwatched') {
        if (missed || staleSince || !isListed) void list(true);
        staleSince = null;
      } else staleSince ??= now();
      // The console may have been restarted with another token. A request will show that.
      if (state === 'lost') askAbout().catch(failed);
      redraw();
    },
  );
}

function take(events: readonly Happening[]): void {
  for (const event of events) {
    const cycle = brokenCycleOf(book, event);
    if (cycle) brokenCycles = [cycle, ...brokenCycles].slice(0, brokenCyclesKept);
    book.takeEvent(event);
  }
  remember(events);
  lookSoon();
}

function remember(events: readonly Happening[]): void {
  feed.take(events);
  lastEventAt = Math.max(lastEventAt, ...events.map(({ at }) => at));
  redraw();
}

/** Reads the list. If events were missed, it also reads the history of each lock that has changed. */
async function list(catchUp = false): Promise<void> {
  clearTimeout(listTimer);
  const since = lastEventAt;
  const listed = await ask(askList);
  if (listed) {
    setClock(listed.at);
    const changed = book.takeList(listed.locks, listed.at);
    isListed = true;
    isComplete = listed.complete;
    listFailures = 0;
    lookSoon();
    if (catchUp) await readMissed(changed, since);
  } else listFailures += 1;
  const delayMs = listFailures ? Math.min(8_000, 500 * 2 ** listFailures) : listEveryMs;
  clearTimeout(listTimer);
  listTimer = setTimeout(() => void list(catchUp && listFailures > 0), delayMs);
}

async function readMissed(changed: readonly string[], since: number): Promise<void> {
  const names = new Set([...(book.focus ? [book.focus] : []), ...changed]);
  for (const lock of [...names].slice(0, catchUpMax)) {
    const events = await readHistory(lock, historyOfRow);
    // If the page never got an event, it shows only new ones.
    if (since > 0) remember(events.filter(({ at }) => at >= since));
  }
}

async function readHistory(lock: string, limit: number): Promise<readonly Happening[]> {
  const read = await ask((ns) => askHistory(ns, lock, limit));
  if (!read) return [];
  const happenings = read.events.map((event) => happeningOf(event, lock)).reverse();
  book.takeHistory(lock, happenings);
  return happenings;
}

/** Reads the visible locks again. */
export function lookSoon(): void {
  if (isLookDue) return;
  isLookDue = true;
  setTimeout(() => {
    isLookDue = false;
    void look();
  }, lookSoonMs);
}

/** The names of the visible rows. */
let seen: readonly string[] = [];

export function setSeen(names: readonly string[]): void {
  seen = names;
}

const lacksHistory = (lock: string): boolean => book.get(lock)?.hasHistory === false;

/** Reads the locks that are due. Called twice a second. */
export function lookIfDue(): void {
  if (worthALook().length || seen.some(lacksHistory)) lookSoon();
}

function namesInView(): readonly string[] {
  if (view === 'locks') return name ? [name] : seen;
  if (view !== 'sessions') return [];
  return book
    .all()
    .filter(({ queueDepth, isGuess }) => queueDepth > 0 || isGuess)
    .map(({ lock }) => lock);
}

function worthALook(): string[] {
  const at = now();
  const isDue = (lock: string): boolean => {
    const known = book.get(lock);
    if (!known) return name === lock;
    const { lookedAt, holders, queueDepth, queue, isGuess } = known;
    const isOld = (queueDepth && !queue.length) || holders.some(({ endsAt }) => endsAt && endsAt < at);
    const isUsed = holders.length + queueDepth > 0;
    return isGuess || (isUsed && at - lookedAt > (isOld ? lookOldMs : lookEveryMs));
  };
  return namesInView().filter(isDue).slice(0, looksMax);
}

async function look(): Promise<void> {
  if (document.hidden || isLooking) return;
  const names = worthALook();
  readHistories();
  if (!names.length) return;
  isLooking = true;
  const looked = await ask((ns) => askLook(ns, names));
  isLooking = false;
  if (!looked) return;
  setClock(looked.at);
  for (const lock of looked.locks) book.takeLook(lock, looked.at);
  redraw();
}

/** The small pictures of visible rows also show the time before this page was opened. */
function readHistories(): void {
  for (const lock of seen) {
    if (historiesAsked.size >= historiesAtOnce) return;
    if (!lacksHistory(lock) || historiesAsked.has(lock)) continue;
    historiesAsked.add(lock);
    void readHistory(lock, historyOfRow).finally(() => {
      historiesAsked.delete(lock);
      readHistories();
    });
  }
}

export function openLock(lock: string): void {
  void look();
  void readHistory(lock, historyOfOne);
}

let order: readonly string[] = [];
let orderedFor = '';
let orderedAt = 0;
let orderedSize = 0;
let isPointedAt = false;

export function setPointedAt(is: boolean): void {
  isPointedAt = is;
}

export function wanted() {
  const { prefix = '', show = 'all', sort = 'busy' } = query;
  return { prefix, shown: show as Shown, sortBy: sort as SortBy };
}

/** The list gets a new order the next time it is shown. */
export function forgetOrder(): void {
  orderedFor = '';
}

/** The order of rows. It changes rarely, and never while a row has the pointer or the focus. */
export function arrange(): readonly string[] {
  const key = JSON.stringify([namespace, wanted()]);
  const isNew = key !== orderedFor || !order.length;
  const isDue = now() - orderedAt > orderMs;
  if (isNew || isDue || book.size !== orderedSize) {
    const fresh = ordered(book, wanted(), now());
    order = isNew || (isDue && !isPointedAt) ? fresh : settled(order, fresh);
    orderedFor = key;
    orderedSize = book.size;
    if (isNew || isDue) orderedAt = now();
  }
  return order;
}
