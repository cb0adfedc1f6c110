/** The number of single edits that turn one word into the other. A swap of two neighboring letters is one edit. */
export function editDistance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min(at(rows, i - 1, j) + 1, (row[j - 1] as number) + 1, at(rows, i - 1, j - 1) + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        best = Math.min(best, at(rows, i - 2, j - 2) + 1);
      row.push(best);
    }
    rows.push(row);
  }
  return at(rows, a.length, b.length);
}

const at = (rows: readonly (readonly number[])[], i: number, j: number): number => rows[i]?.[j] as number;

/** ` Did you mean X?`, or nothing if no known word is close. A wrong guess is worse than none. */
export function didYouMean(typed: string, known: readonly string[]): string {
  // Up to a third of the letters may be wrong, and at least one.
  const farthest = Math.max(1, Math.floor(typed.length / 3));
  const [closest] = known
    .map((word) => ({ word, distance: word.startsWith(typed) ? 0.5 : editDistance(typed, word) }))
    .filter(({ distance }) => distance <= farthest)
    .sort((a, b) => a.distance - b.distance);
  return closest === undefined ? '' : ` Did you mean '${closest.word}'?`;
}
