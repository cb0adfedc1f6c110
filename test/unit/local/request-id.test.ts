import { expect, it } from 'vitest';
import { createGatewayId } from '../../../src/local/request-id.ts';

it('makes ids like those of API Gateway, and never the same one twice', () => {
  const ids = Array.from({ length: 2_000 }, createGatewayId);
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) expect(id).toMatch(/^[\w-]{15}=$/);
});
