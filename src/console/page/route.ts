/** What is shown, as it stands in the address: a link or a reload brings back the same view. */

export type View = 'locks' | 'sessions' | 'records' | 'feed';
export const views: readonly { readonly view: View; readonly title: string }[] = [
  { view: 'locks', title: 'Locks' },
  { view: 'sessions', title: 'Sessions' },
  { view: 'records', title: 'Records' },
  { view: 'feed', title: 'Feed' },
];

export interface Route {
  readonly namespace: string;
  readonly view: View;
  /** The lock or the record that is looked at. */
  readonly name: string;
  readonly query: Readonly<Record<string, string>>;
}

const decode = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

export function readRoute(hash: string, fallback: string): Route {
  const [path = '', search = ''] = hash.replace(/^#/, '').split('?');
  const [, namespace = '', view = '', name = ''] = path.split('/').map(decode);
  return {
    namespace: namespace || fallback,
    view: views.find((known) => known.view === view)?.view ?? 'locks',
    name,
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

/** The address of a view. Names need no more than this: every character of theirs may stand in a fragment. */
export function addressOf({
  namespace,
  view,
  name = '',
  query = {},
}: Partial<Route> & Pick<Route, 'namespace' | 'view'>) {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== '')).toString();
  const path = [namespace, view, ...(name === '' ? [] : [name])].map(encodeURIComponent).join('/');
  return `#/${path}${search === '' ? '' : `?${search}`}`;
}
