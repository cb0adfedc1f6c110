import { describe, expect, it } from 'vitest';
import { MemoryEngine } from '../../../src/engine/engine.ts';
import { condition } from '../../../src/table/attributes.ts';
import { BuiltInTable } from '../../../src/table/built-in.ts';
import { ItemTable } from '../../../src/table/item-table.ts';
import { tableDefinition } from '../../../src/table/shape.ts';

function world() {
  const engine = new MemoryEngine();
  engine.call('CreateTable', tableDefinition('table'));
  return new ItemTable({ table: new BuiltInTable(engine), tableName: 'table' });
}

const key = { pk: 'a', sk: 'lock' };
const isNew = condition('attribute_not_exists(key)', { key: 'pk' });

describe('the built-in table', () => {
  it('shows the item that refused a write', async () => {
    const table = world();
    const first = { ...key, n: 1 };
    expect(await table.put({ Item: first, ...isNew })).toEqual({ applied: true, item: first });
    const second = { Item: { ...key, n: 2 }, ...isNew };
    expect(await table.put(second)).toEqual({ applied: false, item: first, perhapsMine: false });
  });

  it('writes all of a transaction or nothing, and says that a condition refused it', async () => {
    const table = world();
    await table.replace(key);
    const beside = { ...key, pk: 'b' };
    expect(
      await table.writeAll([
        { Item: beside, ...isNew },
        { Item: { ...key, n: 2 }, ...isNew },
      ]),
    ).toBe(false);
    expect([await table.get(key), await table.get(beside)]).toEqual([key, undefined]);
  });
});
