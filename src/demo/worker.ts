import type { Actor } from './timeline.ts';

export interface Answer {
  readonly status: number;
  /** Only the fields that the story reads. */
  readonly body: {
    readonly value?: number;
    readonly version?: number;
    readonly fence?: number;
    readonly leaseId?: string;
    readonly code?: string;
    readonly fenceFloor?: number;
  };
}

export interface Grant {
  readonly leaseId: string;
  readonly fence: number;
}

export interface Balance {
  readonly value: number;
  readonly version: number;
}

/** The shortest lease that the service grants, so that viewers do not wait for long. */
export const leaseMs = 1_000;
/** Longer than the lease and its grace, so that the waiter is granted the lock and does not time out. */
const waitMs = 5_000;

/** One worker: an ordinary client of the service over HTTP. */
export class Worker {
  readonly actor: Actor;
  readonly #url: string;
  readonly #signal: AbortSignal;

  constructor(actor: Actor, url: string, signal: AbortSignal) {
    this.actor = actor;
    this.#url = url;
    this.#signal = signal;
  }

  async acquire(lock: string): Promise<Grant> {
    const { body } = await this.#send(
      'POST',
      `/locks/${lock}/acquire`,
      { leaseMs, waitMs, owner: this.actor },
      {},
      [200],
    );
    return { leaseId: body.leaseId as string, fence: body.fence as number };
  }

  async release(lock: string, { leaseId }: Grant): Promise<void> {
    await this.#send('POST', `/locks/${lock}/release`, { leaseId }, {}, [200]);
  }

  async open(record: string, value: number): Promise<void> {
    await this.#send('PUT', `/records/${record}`, { value }, { 'if-none-match': '*' }, [201]);
  }

  async read(record: string): Promise<Balance> {
    const { body } = await this.#send('GET', `/records/${record}`, undefined, {}, [200]);
    return { value: body.value as number, version: body.version as number };
  }

  /** A write may be refused. The story is about that. */
  write(record: string, value: number, headers: Record<string, string>): Promise<Answer> {
    return this.#send('PUT', `/records/${record}`, { value }, headers, [200, 409, 412]);
  }

  async #send(
    method: string,
    path: string,
    body: object | undefined,
    headers: Record<string, string>,
    expected: readonly number[],
  ): Promise<Answer> {
    const response = await fetch(`${this.#url}/v1/demo${path}`, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: this.#signal,
    });
    const text = await response.text();
    if (!expected.includes(response.status)) {
      throw new Error(`Expected ${expected.join(' or ')} to ${method} ${path}, got ${response.status}: ${text}`);
    }
    return { status: response.status, body: JSON.parse(text) as Answer['body'] };
  }
}

export function summarize({ status, body }: Answer): string {
  if (body.code === 'stale-fence') return `${status} stale-fence, the floor is ${body.fenceFloor}`;
  if (body.code !== undefined) return `${status} ${body.code}, the version is ${body.version}`;
  return `${status}, version ${body.version}`;
}
