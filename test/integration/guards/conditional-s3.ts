import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { startFauxqs } from 'fauxqs';
import { patientServer } from '../../support/patient-server.ts';

/**
 * fauxqs keeps objects, metadata and ETags as S3 does (an ETag is the MD5 of the body), but ignores preconditions on a
 * PUT. This proxy adds them, by S3's documented rules: 412 if If-Match or If-None-Match fails, 404 for If-Match without
 * an object. It checks and forwards one write at a time, so that check and write are one step, as in S3.
 */
export async function startConditionalS3(bucket: string) {
  const store = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false });
  store.createBucket(bucket);
  const origin = `http://127.0.0.1:${store.port}`;
  let turn: Promise<unknown> = Promise.resolve();

  const forward = async (method: string, path: string, headers: Record<string, string>, body: Uint8Array) => {
    const response = await fetch(origin + path, {
      method,
      headers,
      ...(method === 'PUT' && { body: new Uint8Array(body) }),
    });
    return { status: response.status, headers: [...response.headers], body: Buffer.from(await response.arrayBuffer()) };
  };
  const answer = async (method: string, path: string, headers: Record<string, string>, body: Uint8Array) => {
    if (method === 'PUT') {
      const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers;
      const head = await fetch(origin + path, { method: 'HEAD' });
      if (ifMatch && head.status === 404) return { status: 404, headers: [], body: xmlError('NoSuchKey') };
      const holds = ifMatch ? head.headers.get('etag') === ifMatch : !(ifNoneMatch === '*' && head.ok);
      if (!holds) return { status: 412, headers: [], body: xmlError('PreconditionFailed') };
    }
    return forward(method, path, headers, body);
  };

  const gate = patientServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const {
      host: _host,
      connection: _connection,
      'content-length': _length,
      expect: _expect,
      ...headers
    } = request.headers;
    const job = () =>
      answer(request.method ?? 'GET', request.url ?? '/', headers as Record<string, string>, Buffer.concat(chunks));
    const reply = turn.then(job);
    turn = reply.catch(() => {});
    const { status, headers: replied, body } = await reply;
    response.writeHead(status, Object.fromEntries(replied.filter(([name]) => name !== 'transfer-encoding'))).end(body);
  }).listen(0, '127.0.0.1');
  await once(gate, 'listening');

  return {
    endpoint: `http://127.0.0.1:${(gate.address() as AddressInfo).port}`,
    async stop() {
      gate.closeAllConnections();
      gate.close();
      await store.stop();
    },
  };
}

const xmlError = (code: string) =>
  Buffer.from(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`);
