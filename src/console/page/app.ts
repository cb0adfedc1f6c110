/** The actions of the page: start, go to a view, read a record. */
import { refused } from './asking.ts';
import { now, redraw } from './draw.ts';
import { book, comeBack, enter, forgetOrder, leave, lookIfDue, lookSoon, openLock } from './knowledge.ts';
import { name, namespace, readRoute, setRoute, view } from './route.ts';
import { type About, type AskError, askAbout, askRecord, type RecordShown } from './server.ts';

/** If the console does not answer because it restarts, the page asks again after this time. */
const startAgainMs = 2_000;
/** A page in the background closes its connection after this time, because browsers allow only a few per host. */
const hiddenMs = 60_000;
const recordEveryMs = 4_000;

export let about: About | null = null;

export async function start(): Promise<void> {
  try {
    about = await askAbout();
    refused(null);
    go();
  } catch (error) {
    refused(error as AskError);
    // If the token is missing, asking again does not help. If the console restarts, it does.
    if ((error as AskError).status !== 401) setTimeout(() => void start(), startAgainMs);
    redraw();
  }
}

/** Shows what the address says. */
export function go(): void {
  if (!about) return;
  const before = { namespace, view, name };
  setRoute(readRoute(location.hash, about.namespace));
  const isOne = view === 'locks' && !!name;
  const hasMoved = before.view !== view || before.name !== name;
  book.focus = isOne ? name : null;
  const isElsewhere = before.namespace !== namespace;
  if (isElsewhere) {
    document.title = `${namespace} · Holdfast console`;
    enter();
  }
  if (isOne && (isElsewhere || hasMoved)) openLock(name);
  if (view === 'records') void readRecord();
  if (view === 'sessions') lookSoon();
  forgetOrder();
  redraw();
  // For users of a keyboard or a screen reader, the focus moves to the top of the new view.
  if (hasMoved && before.namespace) {
    requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector('h1')?.focus()));
  }
}

export interface RecordState {
  readonly key: string;
  readonly record: RecordShown | null;
  readonly error: AskError | null;
  readonly readAt: number;
}

export let record: RecordState | null = null;

async function readRecord(): Promise<void> {
  const [ns, key] = [namespace, name];
  const show = (found: RecordShown | null, error: AskError | null) => {
    if (ns === namespace && key === name) {
      record = { key, record: found, error, readAt: now() };
    }
    redraw();
  };
  if (key) {
    await askRecord(ns, key).then(
      (found) => show(found, null),
      (error) => show(null, error),
    );
  }
}

/** Called twice a second. It redraws the bars and reads everything that is due. */
export function tick(): void {
  if (document.hidden) return;
  lookIfDue();
  if (record && view === 'records' && now() - record.readAt > recordEveryMs) {
    record = { ...record, readAt: now() };
    void readRecord();
  }
  redraw();
}

let hiddenTimer: ReturnType<typeof setTimeout>;

export function setHidden(isHidden: boolean): void {
  clearTimeout(hiddenTimer);
  if (isHidden) hiddenTimer = setTimeout(leave, hiddenMs);
  else if (about) comeBack();
}
