import { createHash, createHmac } from 'node:crypto';
import type { Agent, IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { awsTable, cloudPatience, localPatience, type Patience, SdkTable } from '../../../src/table/aws/table.ts';
import { ItemTable } from '../../../src/table/item-table.ts';
import { eventually } from '../../support/eventually.ts';
import { patientServer } from '../../support/patient-server.ts';

interface Sent {
  readonly headers: Record<string, string>;
  readonly body: string;
}

type Reply = (response: ServerResponse) => void;

const ok =
  (answer: object): Reply =>
  (response) =>
    response.end(JSON.stringify(answer));
const refuse =
  (status: number, type: string, more: object = {}): Reply =>
  (response) => {
    response.statusCode = status;
    response.end(JSON.stringify({ __type: `com.amazonaws.dynamodb.v20120810#${type}`, message: type, ...more }));
  };
const cut: Reply = (response) => response.destroy();
const cutShort: Reply = (response) => {
  response.writeHead(200, { 'content-length': 100 });
  response.write('{"Attributes":');
  setImmediate(() => response.destroy());
};

const closing: (() => void)[] = [];
afterAll(() => {
  for (const close of closing) close();
});

/** A store that gives the set answers, one after the other, and records what it was sent. */
const storeThatAnswers = (...replies: Reply[]) => storeFor({ requestMs: 60_000 }, replies);

/** As above, with a client of another patience. */
async function storeFor(patience: Partial<Patience>, replies: Reply[], otherwise: Reply = ok({})) {
  const sent: Sent[] = [];
  const server: Server = patientServer((request: IncomingMessage, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on('end', () => {
      sent.push({ headers: request.headers as Record<string, string>, body });
      (replies.shift() ?? otherwise)(response);
    });
  });
  let connections = 0;
  server.on('connection', () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const credentials = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'secret', sessionToken: 'a session token' };
  const { client, table: port } = awsTable(
    { endpoint, region: 'eu-west-1', credentials },
    { ...cloudPatience, connectionMs: 60_000, ...patience },
  );
  closing.push(() => {
    client.destroy();
    server.closeAllConnections();
    server.close();
  });
  const table = new ItemTable({ table: port, tableName: 'locks' });
  return { sent, table, client, connections: () => connections };
}

const key = { pk: 'a', sk: 'lock' };
const raise = {
  UpdateExpression: 'SET #n = :one',
  ConditionExpression: 'attribute_exists(#n)',
  ExpressionAttributeNames: { '#n': 'n' },
  ExpressionAttributeValues: { ':one': 1 },
};

/** Signature Version 4 as AWS describes it, computed again from the received request. */
function signatureOf({ headers, body }: Sent, secret: string): string {
  const authorization = headers.authorization ?? '';
  const [, scope, names] = /Credential=[^/]+\/([^,]+), SignedHeaders=([^,]+),/.exec(authorization) ?? [];
  const hash = (text: string) => createHash('sha256').update(text).digest('hex');
  const mac = (secretKey: string | Buffer, text: string) => createHmac('sha256', secretKey).update(text).digest();
  const signed = (names ?? '').split(';').map((name) => `${name}:${(headers[name] ?? '').trim()}\n`);
  const canonical = `POST\n/\n\n${signed.join('')}\n${names}\n${hash(body)}`;
  const signingKey = (scope ?? '').split('/').reduce<string | Buffer>(mac, `AWS4${secret}`);
  const toSign = `AWS4-HMAC-SHA256\n${headers['x-amz-date']}\n${scope}\n${hash(canonical)}`;
  return mac(signingKey, toSign).toString('hex');
}

describe('two hundred calls at once', () => {
  it.each([
    [64, 'to DynamoDB', cloudPatience],
    [32, 'to a local engine', localPatience],
  ])('share %i connections %s', async (socketsMax, _to, patience) => {
    const held: ServerResponse[] = [];
    let isHolding = true;
    const hold: Reply = (response) => {
      if (isHolding) held.push(response);
      else ok({})(response);
    };
    const patient = { ...patience, connectionMs: 60_000, requestMs: 60_000 };
    const { table, sent, client, connections } = await storeFor(patient, [], hold);
    const calls = Promise.all(Array.from({ length: 200 }, () => table.update(key, raise)));
    await eventually(() => expect(held).toHaveLength(socketsMax));
    isHolding = false;
    for (const response of held) ok({})(response);
    await calls;
    expect(sent).toHaveLength(200);
    expect(connections()).toBe(socketsMax);
    // DynamoDB itself is called over TLS.
    const handler = client.config.requestHandler as unknown as { httpHandlerConfigs(): { httpsAgent: Agent } };
    expect(handler.httpHandlerConfigs().httpsAgent.maxSockets).toBe(socketsMax);
  });
});

describe.each(['over the wire', 'through the SDK'])('a request %s', (way) => {
  async function tableThatGets(...replies: Reply[]) {
    const { client, ...store } = await storeThatAnswers(...replies);
    const isWire = way === 'over the wire';
    const table = isWire ? store.table : new ItemTable({ table: new SdkTable(client), tableName: 'locks' });
    const taken = () => {
      const [{ headers, body }] = store.sent.splice(0) as [Sent];
      expect(headers['amz-sdk-invocation-id'] === undefined).toBe(isWire);
      return { target: headers['x-amz-target'], body: JSON.parse(body) as object };
    };
    return { table, taken };
  }
  const Key = { pk: { S: 'a' }, sk: { S: 'lock' } };

  it('reads an item, or that there is none', async () => {
    const { table, taken } = await tableThatGets(ok({ Item: { n: { N: '5' } } }), ok({}));
    expect(await table.get(key)).toEqual({ n: 5 });
    const body = { TableName: 'locks', Key, ConsistentRead: true };
    expect(taken()).toEqual({ target: 'DynamoDB_20120810.GetItem', body });
    expect(await table.get(key)).toBeUndefined();
  });

  it('puts an item, on a condition or without one', async () => {
    const { table, taken } = await tableThatGets();
    const Item = { ...key, n: 1, m: undefined };
    const named = { ConditionExpression: '#n = :one', ExpressionAttributeNames: { '#n': 'n' } };
    await table.put({ Item, ...named, ExpressionAttributeValues: { ':one': 1 } });
    const put = { TableName: 'locks', Item: { ...Key, n: { N: '1' } } };
    const values = { ExpressionAttributeValues: { ':one': { N: '1' } } };
    const body = { ...put, ...named, ...values, ReturnValuesOnConditionCheckFailure: 'ALL_OLD' };
    expect(taken()).toEqual({ target: 'DynamoDB_20120810.PutItem', body });
    await table.replace(Item);
    expect(taken()).toEqual({ target: 'DynamoDB_20120810.PutItem', body: put });
  });

  it('updates an item, with values or without them', async () => {
    const { table, taken } = await tableThatGets(ok({ Attributes: { n: { N: '1' } } }), ok({}));
    expect(await table.update(key, raise)).toEqual({ applied: true, item: { n: 1 } });
    const returns = { ReturnValues: 'ALL_NEW', ReturnValuesOnConditionCheckFailure: 'ALL_OLD' };
    const values = { ExpressionAttributeValues: { ':one': { N: '1' } } };
    const body = { TableName: 'locks', Key, ...raise, ...values, ...returns };
    expect(taken()).toEqual({ target: 'DynamoDB_20120810.UpdateItem', body });
    const remove = { UpdateExpression: 'REMOVE #n', ExpressionAttributeNames: { '#n': 'n' } };
    expect(await table.update(key, remove, { wantsItem: false })).toEqual({ applied: true, item: {} });
    expect(taken().body).toEqual({ TableName: 'locks', Key, ...remove, ReturnValues: 'NONE' });
  });
});

describe('a call over the wire', () => {
  it('is signed as AWS requires, also with credentials of a role', async () => {
    const { sent, table } = await storeThatAnswers();
    await table.update(key, raise);
    const [request] = sent as [Sent];
    expect(request.headers).toMatchObject({
      'x-amz-target': 'DynamoDB_20120810.UpdateItem',
      'content-type': 'application/x-amz-json-1.0',
      'x-amz-security-token': 'a session token',
    });
    expect(request.headers.authorization).toContain('/eu-west-1/dynamodb/aws4_request');
    for (const name of ['host', 'x-amz-date', 'x-amz-security-token', 'x-amz-target'])
      expect(request.headers.authorization).toMatch(new RegExp(`SignedHeaders=[^,]*\\b${name}\\b`));
    expect(request.headers.authorization).toContain(`Signature=${signatureOf(request, 'secret')}`);
    expect(JSON.parse(request.body)).toMatchObject({ Key: { pk: { S: 'a' } }, ReturnValues: 'ALL_NEW' });
  });

  it('that is refused at once was not done by its own earlier try', async () => {
    const { table } = await storeThatAnswers(refuse(400, 'ConditionalCheckFailedException'));
    expect(await table.update(key, raise)).toEqual({ applied: false, item: undefined, perhapsMine: false });
  });

  it('is repeated after a conflict with a transaction on the same item', async () => {
    const { sent, table } = await storeThatAnswers(
      refuse(400, 'TransactionConflictException'),
      ok({ Attributes: { n: { N: '2' } } }),
    );
    expect(await table.update(key, raise)).toEqual({ applied: true, item: { n: 2 } });
    expect(sent).toHaveLength(2);
  });

  it('is not repeated if the request itself is wrong', async () => {
    const { sent, table } = await storeThatAnswers(refuse(400, 'ValidationException'));
    await expect(table.get(key)).rejects.toMatchObject({ code: 'refused' });
    expect(sent).toHaveLength(1);
  });

  it.each([
    'InvalidSignatureException',
    'RequestExpired',
    'RequestTimeTooSkewed',
    'ExpiredTokenException',
    'UnrecognizedClientException',
  ])('goes through the SDK if its signature is refused: %s', async (why) => {
    const no = refuse(400, why);
    const { sent, table } = await storeThatAnswers(no, ok({ Item: { n: { N: '5' } } }), no, ok({}), no, ok({}));
    expect(await table.get(key)).toEqual({ n: 5 });
    await table.replace({ ...key, n: 5 });
    await table.update(key, raise);
    const bySdk = sent.map(({ headers }) => headers['amz-sdk-invocation-id'] !== undefined);
    expect(bySdk).toEqual([false, true, false, true, false, true]);
    const targets = sent.map(({ headers }) => headers['x-amz-target']?.split('.')[1]);
    expect(targets).toEqual(['GetItem', 'GetItem', 'PutItem', 'PutItem', 'UpdateItem', 'UpdateItem']);
  });

  it('is signed with the time of AWS, as far as the SDK knows it', async () => {
    const { sent, table, client } = await storeThatAnswers();
    client.config.systemClockOffset = 5 * 3_600_000;
    await table.get(key);
    const signedAt = sent[0]?.headers['x-amz-date']?.replace(/^(....)(..)(.....)(..)/, '$1-$2-$3:$4:') ?? '';
    const aheadMs = Date.parse(signedAt) - Date.now();
    expect(aheadMs).toBeGreaterThan(4 * 3_600_000);
    expect(aheadMs).toBeLessThanOrEqual(5 * 3_600_000);
  });

  it('goes over the wire again when a request can be prepared', async () => {
    const { sent, table, client } = await storeThatAnswers();
    client.middlewareStack.add((_next) => () => Promise.reject(new Error('no credentials yet')), {
      step: 'initialize',
      name: 'refuses',
    });
    await expect(table.get(key)).rejects.toThrow();
    client.middlewareStack.remove('refuses');
    await table.get(key);
    expect(sent.map(({ headers }) => headers['amz-sdk-invocation-id'])).toEqual([undefined]);
  });

  /** As above, with another strategy of the SDK: it allows one more try without a pause, and notes what it is told. */
  async function storeWithoutPauses(...replies: Reply[]) {
    const store = await storeThatAnswers(ok({}), ...replies);
    const { client, table, sent } = store;
    // The SDK prepares its request with its own strategy.
    await table.get(key);
    sent.splice(0);
    const told: unknown[] = [];
    const token = { getRetryCount: () => 0, getRetryDelay: () => 0 };
    client.config.retryStrategy = async () => ({
      acquireInitialRetryToken: async () => token,
      refreshRetryTokenForRetry: async (_token, { errorType }) => {
        told.push(errorType);
        if (told.length > 1) throw new Error('no more tries');
        return token;
      },
      recordSuccess: () => void told.push('success'),
    });
    return { ...store, told };
  }

  it('tells the strategy of the SDK how each try ended', async () => {
    const busy = await storeWithoutPauses(refuse(400, 'ThrottlingException'));
    await busy.table.get(key);
    expect(busy.told).toEqual(['THROTTLING', 'success']);
    const broken = await storeWithoutPauses(cut, cut);
    await expect(broken.table.get(key)).rejects.toMatchObject({ code: 'unavailable' });
    expect(broken.told).toEqual(['TRANSIENT', 'TRANSIENT']);
    expect(broken.sent).toHaveLength(2);
  });

  it('keeps a character whole whose bytes arrive in two pieces', async () => {
    const bytes = Buffer.from(JSON.stringify({ Item: { owner: { S: 'Zoë' } } }));
    const middle = bytes.indexOf('ë') + 1;
    const { table, client } = await storeThatAnswers();
    const body = Readable.from([bytes.subarray(0, middle), bytes.subarray(middle)]);
    const response = { statusCode: 200, headers: {}, body };
    vi.spyOn(client.config.requestHandler, 'handle').mockResolvedValue({ response } as never);
    expect(await table.get(key)).toEqual({ owner: 'Zoë' });
  });

  it('may be answered by a proxy in words that are not JSON', async () => {
    const proxy =
      (status: number): Reply =>
      (response) =>
        response.writeHead(status).end('<html>Bad gateway</html>');
    const { sent, table } = await storeWithoutPauses(proxy(502), proxy(403));
    const failure = await table.get(key).catch((error: unknown) => error);
    expect((failure as Error).cause).toMatchObject({ name: 'UnknownError', message: 'DynamoDB answered 403.' });
    expect(sent).toHaveLength(2);
  });

  it.each(['message', 'Message'])('fails with the words of DynamoDB, under the name %s', async (name) => {
    const { table } = await storeThatAnswers((response) => {
      response.statusCode = 400;
      response.end(JSON.stringify({ __type: 'a#b#ValidationException', [name]: 'The key is too long.' }));
    });
    const failure = await table.get(key).catch((error: unknown) => error);
    const { cause } = failure as Error;
    expect(cause).toMatchObject({ name: 'ValidationException', message: 'The key is too long.' });
  });

  it('has no data of the first invocation', async () => {
    vi.stubEnv('AWS_LAMBDA_FUNCTION_NAME', 'http');
    vi.stubEnv('_X_AMZN_TRACE_ID', 'Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1');
    const { sent, table } = await storeThatAnswers();
    await table.get(key);
    await table.get(key);
    const known =
      /^(host|content-type|content-length|user-agent|x-amz-(user-agent|target|date|security-token|content-sha256)|authorization|connection)$/;
    for (const { headers } of sent) expect(Object.keys(headers).filter((name) => !known.test(name))).toEqual([]);
    vi.unstubAllEnvs();
  });

  it.each([
    ['fails', () => Promise.reject(new Error('not for this one'))],
    ['answers by itself', () => Promise.resolve({ output: { $metadata: {} }, response: {} })],
  ])('goes through the SDK if preparing one %s', async (_what, instead) => {
    const { sent, table, client } = await storeThatAnswers(ok({ Item: { n: { N: '5' } } }));
    client.middlewareStack.add(
      (next) => (args) => ((args.input as { TableName?: string }).TableName === 'template' ? instead() : next(args)),
      { step: 'initialize', name: 'refusesTemplates' },
    );
    expect(await table.get(key)).toEqual({ n: 5 });
    expect(sent[0]?.headers['amz-sdk-invocation-id']).toBeDefined();
  });

  it('keeps the request id of AWS in its errors, with the number of tries', async () => {
    const { table } = await storeThatAnswers((response) => {
      response.setHeader('x-amzn-requestid', 'AWS-REQUEST-7');
      refuse(400, 'ValidationException')(response);
    });
    const failure = await table.get(key).catch((error: unknown) => error);
    expect((failure as Error).cause).toMatchObject({
      name: 'ValidationException',
      $metadata: { requestId: 'AWS-REQUEST-7', httpStatusCode: 400, attempts: 1 },
    });
  });

  it('may be the reason for its own refusal, also if two wrap the same client of the SDK', async () => {
    const { client } = await storeThatAnswers(cut, refuse(400, 'ConditionalCheckFailedException'));
    const table = new ItemTable({ table: new SdkTable(client), tableName: 'locks' });
    expect(await table.update(key, raise)).toMatchObject({ applied: false, perhapsMine: true });
  });

  it('leaves out undefined values through the SDK too', async () => {
    const { sent, table } = await storeThatAnswers();
    // Without the setting, the SDK fails only inside of a map.
    await table.replaceMany([{ ...key, map: { n: 1, m: undefined } }]);
    const [request] = sent as [Sent];
    expect(JSON.parse(request.body).RequestItems.locks).toEqual([
      { PutRequest: { Item: { pk: { S: 'a' }, sk: { S: 'lock' }, map: { M: { n: { N: '1' } } } } } },
    ]);
  });
});

// These take seconds, because the pauses of the SDK pass.
describe.concurrent('a call over the wire that gets no answer', () => {
  it.each([
    ['the connection breaks', cut, 60_000],
    ['the answer is cut short', cutShort, 60_000],
    ['the store is out of order', refuse(500, 'InternalServerError'), 60_000],
    ['the store asks for less traffic', refuse(400, 'ThrottlingException'), 60_000],
    // Long enough for the second request to be answered on a busy machine.
    ['nothing is answered', () => {}, 3_000],
    ['an answer begins and does not end', (response: ServerResponse) => response.write('{'), 3_000],
  ])('is repeated if %s, and then its first try may be the reason for a refusal', async (_what, fault, requestMs) => {
    const Item = { n: { N: '1' } };
    const refusal = refuse(400, 'ConditionalCheckFailedException', { Item });
    const { sent, table } = await storeFor({ requestMs }, [fault, refusal]);
    const written = await table.update(key, raise);
    expect(written).toEqual({ applied: false, item: { n: 1 }, perhapsMine: true });
    expect(sent).toHaveLength(2);
  });

  it('ends after three tries, and says that the store is unavailable or busy', async () => {
    const { sent, table } = await storeThatAnswers(cut, cut, cut);
    await expect(table.get(key)).rejects.toMatchObject({ code: 'unavailable' });
    expect(sent).toHaveLength(3);
    const throttled = await storeThatAnswers(...Array.from({ length: 3 }, () => refuse(400, 'ThrottlingException')));
    await expect(throttled.table.get(key)).rejects.toMatchObject({ code: 'throttled' });
  });

  it('does not say that nothing was done if an earlier try got no answer before the throttling', async () => {
    const throttle = refuse(400, 'ThrottlingException');
    const uncertain = await storeThatAnswers(cut, throttle, throttle);
    await expect(uncertain.table.update(key, raise)).rejects.toMatchObject({ code: 'unavailable' });
    const certain = await storeThatAnswers(throttle, throttle, throttle);
    await expect(certain.table.update(key, raise)).rejects.toMatchObject({ code: 'throttled' });
  });

  it('says the same through the SDK', async () => {
    const throttle = refuse(400, 'ThrottlingException');
    const uncertain = await storeThatAnswers(cut, throttle, throttle);
    await expect(uncertain.table.writeAll([{ key, update: raise }])).rejects.toMatchObject({ code: 'unavailable' });
    const certain = await storeThatAnswers(throttle, throttle, throttle);
    await expect(certain.table.writeAll([{ key, update: raise }])).rejects.toMatchObject({ code: 'throttled' });
  });
});
