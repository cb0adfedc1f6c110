import { render } from 'lit-html';
import { go, setHidden, start, tick } from './app.ts';
import { drawWith, redraw } from './draw.ts';
import { addressOf, name, view } from './route.ts';
import { change } from './views/change.ts';
import { shell } from './views/shell.ts';

const tickMs = 500;

const root = document.getElementById('app') as HTMLElement;
root.replaceChildren();

// The cookie is set now. The token must not stay in the address, in screenshots or in the browser's history.
if (location.search) history.replaceState(null, '', `${location.pathname}${location.hash}`);

drawWith(() => {
  render(shell(), root);
  const dialog = root.querySelector('dialog');
  if (!dialog?.open) dialog?.showModal();
});
void start();
setInterval(tick, tickMs);

addEventListener('hashchange', go);
addEventListener('resize', redraw);
document.addEventListener('visibilitychange', () => setHidden(document.hidden));
addEventListener('keydown', (event) => {
  const { key, target, ctrlKey, metaKey } = event;
  if (/^(?:INPUT|SELECT|TEXTAREA)$/.test((target as HTMLElement).tagName)) return;
  if (key === '/' && !ctrlKey && !metaKey) {
    const search = root.querySelector<HTMLInputElement>('[type=search]');
    if (!search) return;
    event.preventDefault();
    search.focus();
    search.select();
  }
  if (key === 'Escape' && !change && view === 'locks' && name) {
    location.hash = addressOf('locks');
  }
});
