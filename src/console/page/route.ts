/** The address says what is shown, so a link or a reload opens the same view. */

export const views = ['locks', 'sessions', 'records', 'feed'] as const;
export type View = (typeof views)[number];

export interface Route {
  readonly namespace: string;
  readonly view: View;
  /** The lock or the record that is shown. */
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
  const [path = '', search = ''] = hash.slice(1).split('?');
  const [, space, wanted, of = ''] = path.split('/').map(decode);
  return {
    namespace: space || fallback,
    view: views.find((known) => known === wanted) ?? 'locks',
    name: of,
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

export let { namespace, view, name, query } = readRoute('', '');

export function setRoute(next: Route): void {
  ({ namespace, view, name, query } = next);
}

/** The address of a view, in this namespace if no other is given. */
export function addressOf(to: View, of = '', filters: Route['query'] = {}, inNamespace = namespace): string {
  const search = new URLSearchParams(Object.entries(filters).filter(([, value]) => value)).toString();
  const path = [inNamespace, to, ...(of ? [of] : [])].map(encodeURIComponent).join('/');
  return `#/${path}${search && `?${search}`}`;
}

/** Filters are in the address too. Returns the new address. */
export function setQuery(filters: Route['query']): string {
  query = { ...query, ...filters };
  return addressOf(view, name, query);
}
