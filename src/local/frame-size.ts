/**
 * Watches the frames of one WebSocket connection go by and tells when one is larger than allowed. API Gateway limits
 * frames (32 KB) apart from messages (128 KB); `ws` limits messages only, so without this a client that works here
 * could fail when deployed.
 */
export class FrameSizeGuard {
  // The longest frame header: two bytes, eight of length, four of mask.
  readonly #header = Buffer.alloc(14);
  readonly #frameBytesMax: number;
  #headerBytes = 0;
  #payloadBytesLeft = 0;

  constructor(frameBytesMax: number) {
    this.#frameBytesMax = frameBytesMax;
  }

  /** Takes the next bytes, in order. False once a frame among them is too large; nothing after that is meaningful. */
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
