import { figure } from './format.ts';
import { logScale } from './scale.ts';

export interface Series {
  readonly name: string;
  readonly color: string;
  /** Drawn thicker, because the reader looks for it. */
  readonly strong: boolean;
  readonly dashed: boolean;
  readonly points: readonly { readonly x: number; readonly y: number }[];
}

export interface Chart {
  readonly title: string;
  readonly xTitle: string;
  readonly yTitle: string;
  readonly series: readonly Series[];
}

const width = 900;
const height = 440;
const plot = { left: 70, top: 46, right: 590, bottom: 380 };
/** Lines of the legend, as close as letters of its size allow. */
const legendStep = 22;

const escapeXml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

const round = (value: number): string => value.toFixed(1);

/** The chart can be read on white and on black. It has no background, and only text and lines change with the colour scheme. */
const style = `
    text { font: 13px system-ui, sans-serif; fill: #6e7681; }
    .title { font-size: 16px; font-weight: 600; }
    .grid { stroke: #8b949e; stroke-opacity: 0.3; }
    .axis { stroke: #8b949e; }
    @media (prefers-color-scheme: dark) { text { fill: #d1d7e0; } }`;

/** Lines over two logarithmic axes, with a legend in the order in which the lines end. Text in, text out. */
export function lineChart({ title, xTitle, yTitle, series }: Chart): string {
  const drawn = series.filter(({ points }) => points.length > 0);
  const xs = [...new Set(drawn.flatMap(({ points }) => points.map(({ x }) => x)))].sort((one, other) => one - other);
  const xScale = logScale(xs);
  const yScale = logScale(drawn.flatMap(({ points }) => points.map(({ y }) => y)));
  // The axis begins and ends with the data. With rounder numbers it would waste space.
  const [firstX, lastX] = [xs[0] ?? xScale.low, xs.at(-1) ?? xScale.high];
  const span = Math.log(lastX / firstX) || 1;
  const left = (x: number) => plot.left + (Math.log(x / firstX) / span) * (plot.right - plot.left);
  const top = (y: number) => plot.bottom - yScale.at(y) * (plot.bottom - plot.top);

  const grid = yScale.ticks.map(
    (
      tick,
    ) => `  <line class="grid" x1="${plot.left}" x2="${plot.right}" y1="${round(top(tick))}" y2="${round(top(tick))}"/>
  <text x="${plot.left - 8}" y="${round(top(tick) + 4)}" text-anchor="end">${tickLabel(tick)}</text>`,
  );
  const columns = xs.map(
    (x) => `  <line class="grid" x1="${round(left(x))}" x2="${round(left(x))}" y1="${plot.top}" y2="${plot.bottom}"/>
  <text x="${round(left(x))}" y="${plot.bottom + 20}" text-anchor="middle">${x}</text>`,
  );
  const lines = drawn.map((one) => lineOf(one, left, top));
  const byEnd = drawn.toSorted((one, other) => (other.points.at(-1)?.y ?? 0) - (one.points.at(-1)?.y ?? 0));
  const legend = byEnd.map((one, index) => legendEntry(one, plot.top + 6 + index * legendStep));
  const middle = (plot.top + plot.bottom) / 2;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escapeXml(title)}">
  <style>${style}
  </style>
  <text class="title" x="${plot.left}" y="24">${escapeXml(title)}</text>
${[...grid, ...columns].join('\n')}
  <line class="axis" x1="${plot.left}" x2="${plot.right}" y1="${plot.bottom}" y2="${plot.bottom}"/>
  <line class="axis" x1="${plot.left}" x2="${plot.left}" y1="${plot.top}" y2="${plot.bottom}"/>
  <text x="${(plot.left + plot.right) / 2}" y="${plot.bottom + 44}" text-anchor="middle">${escapeXml(xTitle)}</text>
  <text transform="translate(20 ${middle}) rotate(-90)" text-anchor="middle">${escapeXml(yTitle)}</text>
${[...lines, ...legend].join('\n')}
</svg>
`;
}

const tickLabel = (tick: number): string => (tick >= 1 ? tick.toLocaleString('en-US') : String(tick));

const strokeOf = ({ color, strong, dashed }: Series): string =>
  `stroke="${color}" stroke-width="${strong ? 3.5 : 1.8}"${dashed ? ' stroke-dasharray="6 4"' : ''}`;

function lineOf(series: Series, left: (x: number) => number, top: (y: number) => number): string {
  const places = series.points.map(({ x, y }) => ({ cx: round(left(x)), cy: round(top(y)), y }));
  const path = places.map(({ cx, cy }) => `${cx},${cy}`).join(' ');
  const dots = places.map(
    ({ cx, cy, y }) =>
      `    <circle cx="${cx}" cy="${cy}" r="${series.strong ? 4 : 3}" fill="${series.color}"><title>${escapeXml(series.name)}: ${figure(y)}</title></circle>`,
  );
  return `  <g>
    <polyline points="${path}" fill="none" ${strokeOf(series)}/>
${dots.join('\n')}
  </g>`;
}

function legendEntry(series: Series, y: number): string {
  const from = plot.right + 24;
  return `  <line x1="${from}" x2="${from + 26}" y1="${y}" y2="${y}" ${strokeOf(series)}/>
  <text x="${from + 34}" y="${y + 4}"${series.strong ? ' font-weight="600"' : ''}>${escapeXml(series.name)}</text>`;
}
