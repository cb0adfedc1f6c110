/** When the page is drawn, and by which clock. */

let paint = (): void => {};
let isAsked = false;

/** Draws before the next frame, once, however often it is asked for. */
export function redraw(): void {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    paint();
  });
}

export function drawWith(draw: () => void): void {
  paint = draw;
  redraw();
}

let offsetMs = 0;

/** The time by the clock that events are stamped with. */
export const now = (): number => Date.now() + offsetMs;

export function setClock(at: number): void {
  const ms = at - Date.now();
  // Below this it is the time that the answer took. Beyond, the console runs on a machine with another clock.
  offsetMs = Math.abs(ms) > 2_000 ? ms : 0;
}
