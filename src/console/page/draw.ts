/** When the page is drawn, and by which clock. */

let paint = (): void => {};
let isAsked = false;

/** Draws before the next frame, and only once, even if it is called several times. */
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

/** The current time by the clock of the events. */
export const now = (): number => Date.now() + offsetMs;

export function setClock(at: number): void {
  const ms = at - Date.now();
  // A small difference is the time that the answer took. A large one means that the console's machine has another clock.
  offsetMs = Math.abs(ms) > 2_000 ? ms : 0;
}
