/** Parts that several views use. */
import { html, type TemplateResult } from 'lit-html';
import { momentOf } from '../model/words.ts';
import { now } from './draw.ts';
import { addressOf } from './route.ts';

export type Shown = TemplateResult | string;

/** The parts that are not empty, in one line. */
export const joined = (...parts: readonly (string | false | undefined)[]): string => parts.filter(Boolean).join(' · ');

/** The head of a view. */
export const top = (title: string, words: Shown, tools: Shown = ''): TemplateResult =>
  html`<div class="top"><h1 tabindex="-1">${title}</h1>${quietly(words)}${tools}</div>`;

export const panel = (name: string, title: string, words: Shown, body: unknown, tools: unknown = ''): TemplateResult =>
  html`<section class="panel ${name}" aria-label=${title}><h2>${title} <span class="quiet">${words}</span>${tools}</h2>${body}</section>`;

/** The text of a view without content. */
export const empty = (title: Shown, ...body: readonly Shown[]): TemplateResult =>
  html`<div class="empty"><h2>${title}</h2>${body}</div>`;

export const paragraph = (words: Shown, kind = ''): TemplateResult => html`<p class=${kind}>${words}</p>`;
export const quietly = (words: Shown): TemplateResult => paragraph(words, 'quiet');

/** Names with their values. */
export const facts = (...list: readonly (readonly [title: unknown, value: unknown])[]): TemplateResult =>
  html`<dl>${list.map(([title, value]) => html`<div><dt>${title}</dt><dd>${value}</dd></div>`)}</dl>`;

export const lockLink = (lock: string): TemplateResult =>
  html`<a class="name" href=${addressOf('locks', lock)}>${lock}</a>`;

/** The time of something, and how long ago it was. */
export const moment = (at: number, ago: string): TemplateResult =>
  html`${momentOf(at, now())} <span class="quiet">(${ago})</span>`;

/** Does this instead of the browser's own action. */
export const instead =
  (act: (event: Event) => void) =>
  (event: Event): void => {
    event.preventDefault();
    act(event);
  };

/** The text of the event's field, or of the form's first field. */
export function typed({ target }: Event): string {
  const { elements: [field] = [target] } = target as HTMLFormElement;
  return (field as HTMLInputElement).value.trim();
}

export const searchField = (
  label: string,
  placeholder: string,
  value: string,
  onInput: (event: Event) => void = () => {},
): TemplateResult =>
  html`<label class="field grow">
    <span>${label}</span>
    <input type="search" spellcheck="false" autocomplete="off" autocapitalize="none"
      placeholder=${placeholder} .value=${value} @input=${onInput} />
  </label>`;

/** Buttons. One of them is chosen. */
export const choice = <T>(
  legend: string,
  kind: string,
  options: readonly (readonly [value: T, title: unknown])[],
  isChosen: (value: T) => boolean,
  choose: (value: T) => void,
  type = 'radio',
): TemplateResult =>
  html`<fieldset class="choice ${kind}">
    <legend>${legend}</legend>
    ${options.map(
      ([value, title]) => html`<label>
        <input type=${type} name=${legend} .checked=${isChosen(value)} @change=${() => choose(value)} />
        <span>${title}</span>
      </label>`,
    )}
  </fieldset>`;
