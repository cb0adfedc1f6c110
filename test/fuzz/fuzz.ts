import { Agent, request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { Chance } from '../world/chance.ts';
import { type FuzzRequest, nextRequest } from './requests.ts';

/** No answer takes longer, because the service is started with polls of 200 ms. */
export const answerMsMax = 10_000;
/** An incomplete raw request gets no answer until the gateway's own time limit. We do not wait for that. */
const rawMsMax = 300;

export interface FuzzReport {
  readonly sent: number;
  readonly statuses: ReadonlyMap<number, number>;
  readonly findings: readonly string[];
}

interface Answer {
  /** 0 if the connection was closed without a status. */
  readonly status: number;
  readonly text: string;
}

/**
 * Sends bad requests, several at a time, until the number or the time is reached. Returns the answers that should not
 * have come.
 */
export async function fuzz(options: {
  url: string;
  seed: number;
  requests: number;
  budgetMs: number;
  /** Texts that no answer may ever contain. */
  secrets: readonly string[];
}): Promise<FuzzReport> {
  const { url, seed, requests, budgetMs, secrets } = options;
  const chance = new Chance(seed);
  const agent = new Agent({ keepAlive: true, maxSockets: lanes });
  const statuses = new Map<number, number>();
  const findings: string[] = [];
  const endsAt = performance.now() + budgetMs;
  let sent = 0;
  const lane = async () => {
    while (sent < requests && performance.now() < endsAt && findings.length < findingsMax) {
      sent += 1;
      const made = nextRequest(chance);
      try {
        const { status, text } = await (made.kind === 'raw' ? sendRaw(url, made.bytes) : sendHttp(url, made, agent));
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        if (status >= 500) findings.push(`${status} to ${show(made)}: ${text.slice(0, 300)}`);
        const secret = secrets.find((each) => text.includes(each));
        if (secret !== undefined) findings.push(`A secret was shown to ${show(made)}: ${text.slice(0, 300)}`);
      } catch (error) {
        findings.push(`${String(error)} for ${show(made)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  agent.destroy();
  return { sent, statuses, findings };
}

/** Enough to keep the service busy, and few enough that it can still answer. */
const lanes = 12;
/** More findings of the same kind would only make the report longer. */
const findingsMax = 20;

function sendHttp(url: string, made: Extract<FuzzRequest, { kind: 'http' }>, agent: Agent): Promise<Answer> {
  const { hostname, port } = new URL(url);
  const { method, path, headers, body } = made;
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ hostname, port, method, path, headers, agent, timeout: answerMsMax }, (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
      incoming.on('end', () => resolve({ status: incoming.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
      incoming.on('error', reject);
    });
    outgoing.on('timeout', () => outgoing.destroy(new Error(`No answer came within ${answerMsMax} ms`)));
    // If the service closes the connection on nonsense, that counts as an answer too.
    outgoing.on('error', (error: NodeJS.ErrnoException) =>
      error.code === 'ECONNRESET' || error.code === 'EPIPE' ? resolve({ status: 0, text: '' }) : reject(error),
    );
    outgoing.end(body);
  });
}

function sendRaw(url: string, bytes: Buffer): Promise<Answer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    const done = () => resolve({ status: Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0), text });
    const timer = setTimeout(() => socket.destroy(), rawMsMax);
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
    });
    socket.on('error', (error: NodeJS.ErrnoException) => (error.code === 'ECONNREFUSED' ? reject(error) : undefined));
    socket.on('close', () => {
      clearTimeout(timer);
      done();
    });
  });
}

const show = (made: FuzzRequest): string =>
  made.kind === 'raw'
    ? JSON.stringify(made.bytes.toString('latin1').slice(0, 300))
    : `${made.method} ${made.path.slice(0, 200)} ${JSON.stringify(made.headers)} ${made.body?.toString().slice(0, 300) ?? ''}`;

export interface Victim {
  readonly secrets: readonly string[];
  /** Checks that everything is as it was before the bad requests. */
  check(): Promise<string[]>;
}

/**
 * A caller that holds locks and a session during the whole run. Its secrets must stay secret and its locks must stay
 * held.
 */
export async function placeVictim(url: string): Promise<Victim> {
  const call = async (method: string, path: string, body?: object) => {
    const response = await fetch(`${url}${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const leaseMs = 3_600_000;
  const held: { name: string; leaseId: string; fence: unknown }[] = [];
  for (const name of ['a', 'b', 'lock:1']) {
    const leaseId = `victim-secret-lease-of-${name.replace(':', '-')}`;
    const { body } = await call('POST', `/v1/victim/locks/${name}/acquire`, { leaseId, leaseMs, owner: 'victim' });
    held.push({ name, leaseId, fence: body.fence });
  }
  const session = await call('POST', '/v1/victim/sessions', { ttlMs: leaseMs });
  const sessionId = String(session.body.sessionId);
  await call('POST', '/v1/victim/locks/x.y_z/acquire', { leaseId: 'victim-secret-lease-in-session', sessionId });
  return {
    secrets: [...held.map(({ leaseId }) => leaseId), sessionId, 'victim-secret-lease-in-session'],
    check: async () => {
      const wrong: string[] = [];
      const health = await call('GET', '/v1/health');
      if (health.status !== 200) wrong.push(`health answers ${health.status}`);
      for (const { name, leaseId, fence } of held) {
        const renewed = await call('POST', `/v1/victim/locks/${name}/renew`, { leaseId });
        if (renewed.status !== 200 || renewed.body.fence !== fence)
          wrong.push(`${name} was lost: ${JSON.stringify(renewed.body)}`);
      }
      const kept = await call('POST', `/v1/victim/sessions/${sessionId}/keepalive`, {});
      if (kept.status !== 200) wrong.push(`the session was lost: ${kept.status}`);
      return wrong;
    },
  };
}
