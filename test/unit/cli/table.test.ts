import { describe, expect, it } from 'vitest';
import { cutTo, harmless, layTable, widthOf } from '../../../src/cli/table.ts';

const columns = [{ title: 'LOCK' }, { title: 'FENCE', align: 'right' }, { title: 'OWNER' }] as const;

describe('layTable', () => {
  it('lines columns up under their titles, numbers by their last digit', () => {
    const rows = [
      ['a', '7', 'alice'],
      ['wallet:42', '1200', 'bob'],
    ];
    expect(layTable(columns, rows)).toBe(
      ['LOCK       FENCE  OWNER', 'a              7  alice', 'wallet:42   1200  bob', ''].join('\n'),
    );
  });

  it('shrinks the widest column if the terminal is narrow, and never a title', () => {
    const text = layTable(columns, [['wallet:42', '1200', 'somebody-with-a-long-name']], { widthMax: 30 });
    expect(text.split('\n')[1]).toBe('wallet:42   1200  somebody-wi…');
    const tiny = layTable(columns, [['wallet:42', '1200', 'somebody']], { widthMax: 5 });
    expect(tiny.split('\n')[0]).toBe('LOCK      FENCE  OWNER');
  });

  it('counts wide characters as two columns, and colors as none', () => {
    expect(widthOf('鍵')).toBe(2);
    expect(widthOf('\u001b[31mred\u001b[39m')).toBe(3);
    const lines = layTable(
      [{ title: 'A' }, { title: 'B' }],
      [
        ['鍵鍵', 'x'],
        ['abcd', 'y'],
      ],
    ).split('\n');
    expect(lines.slice(1, 3)).toEqual(['鍵鍵  x', 'abcd  y']);
  });
});

describe('cutTo', () => {
  it('marks what it cuts, and never exceeds the width', () => {
    expect(cutTo('wallet', 6)).toBe('wallet');
    expect(cutTo('wallets', 6)).toBe('walle…');
    expect(widthOf(cutTo('鍵鍵鍵鍵', 6))).toBeLessThanOrEqual(6);
  });
});

describe('harmless', () => {
  it('leaves no character that steers a terminal or turns the direction of writing', () => {
    const hostile = 'a\u001b[2J\u0007\r\n\u009b0m\u202eb';
    expect(harmless(hostile)).toBe('a\ufffd[2J\ufffd\ufffd\ufffd\ufffd0m\ufffdb');
    expect(harmless('Zoë · 鍵')).toBe('Zoë · 鍵');
  });
});
