/**
 * Reads along with the frames of one WebSocket connection and reports a frame that is too large. API Gateway limits
 * both frames (32 KB) and messages (128 KB), but `ws` limits only messages. Without this check, a client that works
 * here could fail in AWS.
 */
export class FrameSizeCheck {
  // The longest frame header: two bytes, eight bytes of length, four bytes of mask.
  readonly #header = Buffer.alloc(14);
  readonly #frameBytesMax: number;
  #headerBytes = 0;
  #payloadBytesLeft = 0;

  constructor(frameBytesMax: number) {
    this.#frameBytesMax = frameBytesMax;
  }

  /**
   * Takes the next bytes, in order. Returns false if a frame in them is too large. After that, further results mean
   * nothing.
   */
  isWithin(chunk: Buffer): boolean {
    let offset = 0;
    while (offset < chunk.length) {
      if (this.#payloadBytesLeft > 0) {
        const step = Math.min(this.#payloadBytesLeft, chunk.length - offset);
        this.#payloadBytesLeft -= step;
        offset += step;
      } else {
        this.#header[this.#headerBytes] = chunk[offset] as number;
        this.#headerBytes += 1;
        offset += 1;
        if (!this.#readHeader()) return false;
      }
    }
    return true;
  }

  #readHeader(): boolean {
    if (this.#headerBytes < 2) return true;
    const second = this.#header[1] as number;
    const shortLength = second & 0x7f;
    const lengthBytes = shortLength === 126 ? 2 : shortLength === 127 ? 8 : 0;
    const maskBytes = (second & 0x80) === 0 ? 0 : 4;
    if (this.#headerBytes < 2 + lengthBytes + maskBytes) return true;
    let length = shortLength;
    if (lengthBytes === 2) length = this.#header.readUInt16BE(2);
    else if (lengthBytes === 8) length = Number(this.#header.readBigUInt64BE(2));
    this.#headerBytes = 0;
    this.#payloadBytesLeft = length;
    return length <= this.#frameBytesMax;
  }
}
