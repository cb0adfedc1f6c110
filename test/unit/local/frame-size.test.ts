import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FrameSizeCheck } from '../../../src/local/frame-size.ts';

/** A masked frame, as clients send it. */
function frame(payloadBytes: number): Buffer {
  let length: Buffer;
  if (payloadBytes < 126) length = Buffer.from([0x80 | payloadBytes]);
  else if (payloadBytes < 65_536) length = Buffer.from([0x80 | 126, payloadBytes >> 8, payloadBytes & 0xff]);
  else {
    length = Buffer.alloc(9);
    length[0] = 0x80 | 127;
    length.writeBigUInt64BE(BigInt(payloadBytes), 1);
  }
  return Buffer.concat([Buffer.from([0x82]), length, Buffer.alloc(4), Buffer.alloc(payloadBytes, 0xff)]);
}

function isAllowed(bytes: Buffer, cuts: readonly number[], frameBytesMax: number): boolean {
  const check = new FrameSizeCheck(frameBytesMax);
  const edges = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return edges.slice(1).every((end, index) => check.isWithin(bytes.subarray(edges[index], end)));
}

describe('FrameSizeCheck', () => {
  it.each([
    [0, true],
    [125, true],
    [126, true],
    [32_768, true],
    [32_769, false],
    [65_535, false],
    [65_536, false],
  ])('judges a frame of %d bytes against 32 KiB', (payloadBytes, isWithin) => {
    expect(isAllowed(frame(payloadBytes), [], 32_768)).toBe(isWithin);
  });

  it('finds the one frame that is too large, wherever the bytes are cut', () => {
    const sizes = fc.array(fc.integer({ min: 0, max: 300 }), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(sizes, fc.array(fc.nat(), { maxLength: 20 }), (payloads, cuts) => {
        const bytes = Buffer.concat(payloads.map(frame));
        expect(isAllowed(bytes, cuts, 200)).toBe(payloads.every((size) => size <= 200));
      }),
    );
  });
});
