import { render } from 'lit-html';
import { App } from './app.ts';
import { readRoute } from './route.ts';
import { shell } from './views/shell.ts';

const root = document.getElementById('app') as HTMLElement;
root.replaceChildren();

// The cookie is set; the token must not stay where a shoulder, a screenshot or the browser's history finds it.
if (location.search !== '') history.replaceState(null, '', `${location.pathname}${location.hash}`);

let asked = false;
const draw = () => {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    render(shell(app), root);
  });
};

const app = new App(draw, location.hash);
draw();
void app.start();

const tickMs = 500;
setInterval(() => app.tick(), tickMs);
addEventListener('hashchange', () => {
  if (app.about === null) return;
  const before = app.route;
  app.go(readRoute(location.hash, app.about.namespace));
  // Whoever goes by keyboard or listens goes on at the top of the new view.
  const moved = before.view !== app.route.view || before.name !== app.route.name;
  if (moved) requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector('h1')?.focus()));
});
document.addEventListener('visibilitychange', () => app.hidden(document.hidden));
addEventListener('resize', draw);

addEventListener('keydown', (event) => {
  const target = event.target as HTMLElement;
  const isTyping = /^(?:INPUT|SELECT|TEXTAREA)$/.test(target.tagName);
  if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey) {
    const search = document.querySelector<HTMLInputElement>('input[type=search]');
    if (search === null) return;
    event.preventDefault();
    search.focus();
    search.select();
  }
  if (
    event.key === 'Escape' &&
    app.revoking === null &&
    app.route.view === 'locks' &&
    app.route.name !== '' &&
    !isTyping
  ) {
    app.navigate({ view: 'locks', name: '' });
  }
});
