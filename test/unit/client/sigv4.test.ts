import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { sign } from '../../../src/client/auth/signature.ts';
import { sigv4 } from '../../../src/client/auth/sigv4.ts';

/** The setting of the test suite that AWS published for Signature Version 4. */
const suite = {
  credentials: { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' },
  region: 'us-east-1',
  service: 'service',
  at: new Date('2015-08-30T12:36:00Z'),
};

const vectors = [
  {
    name: 'get-vanilla',
    method: 'GET',
    path: '/',
    signature: '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
  },
  {
    name: 'get-vanilla-query-order-key-case',
    method: 'GET',
    path: '/?Param2=value2&Param1=value1',
    signature: 'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500',
  },
  {
    name: 'get-vanilla-utf8-query',
    method: 'GET',
    path: '/?ሴ=bar',
    signature: '2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04',
  },
  {
    name: 'post-vanilla',
    method: 'POST',
    path: '/',
    signature: '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b',
  },
  {
    name: 'post-header-key-sort',
    method: 'POST',
    path: '/',
    headers: { 'my-header1': 'value1' },
    signature: 'c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c',
  },
  {
    name: 'post-x-www-form-urlencoded',
    method: 'POST',
    path: '/',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: 'Param1=value1',
    signature: 'ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a',
  },
];

describe('sign', () => {
  it.each(vectors)(
    'signs $name with the signature that AWS published',
    async ({ method, path, headers = {}, body, signature }) => {
      const url = new URL(path, 'https://example.amazonaws.com');
      const { authorization } = await sign({ ...suite, method, url, headers, body });
      expect(authorization?.split('Signature=')[1]).toBe(signature);
    },
  );

  it('signs a session token and says so', async () => {
    const credentials = { ...suite.credentials, sessionToken: 'token' };
    const url = new URL('https://example.amazonaws.com/');
    const signed = await sign({ ...suite, credentials, method: 'GET', url, headers: {}, body: undefined });
    expect(signed['x-amz-security-token']).toBe('token');
    expect(signed.authorization).toContain('SignedHeaders=host;x-amz-date;x-amz-security-token,');
  });

  it('signs a path encoded once more than it is sent', async () => {
    const at = (path: string) =>
      sign({
        ...suite,
        method: 'GET',
        url: new URL(path, 'https://example.amazonaws.com'),
        headers: {},
        body: undefined,
      });
    // As @smithy/signature-v4 5.7 signs it.
    expect((await at('/v1/payments/locks/wallet%3A42')).authorization).toMatch(
      /Signature=148fe515fd62553fa7675d032e606ec9ec1053a921c7b22461ad2c572136ce53$/,
    );
  });

  // As @smithy/signature-v4 5.7 signs them.
  it.each([
    [
      'characters that encodeURIComponent leaves alone, in the path',
      { method: 'GET', path: "/v1/a!b'c(d)e*f" },
      'ca6ef3b69cbb49594c6aa1325b311e32d1534b51e4b822063b16e7ec277731b5',
    ],
    [
      'characters that encodeURIComponent leaves alone, in the query',
      { method: 'GET', path: "/?x=a!b'c(d)e*f&y=~" },
      'a97de7372a18453c634c33736c7cd746c6c54d18a45f27c1c10d03996286b638',
    ],
    [
      'a query with its names in any order, and one of them twice',
      { method: 'GET', path: '/?b=1&a=2&c=3&a=1' },
      '051340b7388a43b0d286788fcbcdbc3cbb721ebeaa3954c18fb95da5d004cab6',
    ],
    [
      'a query that is in order: by the names first, and then by the values',
      { method: 'GET', path: '/?a=1&a=2&b=0' },
      'c65c71c721239f18b868f72a6771698e09766350986aa2f7effcfca45fdf6bdc',
    ],
    [
      'headers in any order and with spaces, and a body that is not ASCII',
      {
        method: 'POST',
        path: '/',
        headers: { zeta: '  two   words ', alpha: '1', 'content-type': 'application/json' },
        body: '{"owner":"Zoë"}',
      },
      '10fc2721297669775d3d7eadb944d11f68511681dff1c241a96ba381cbc7f613',
    ],
  ])('signs %s', async (_, { method, path, ...more }, signature) => {
    const url = new URL(path, 'https://example.amazonaws.com');
    const { authorization } = await sign({ ...suite, method, url, headers: {}, body: undefined, ...more });
    expect(authorization?.split('Signature=')[1]).toBe(signature);
  });

  it('names the algorithm, the key and the signed headers, and sends the time', async () => {
    const url = new URL('https://example.amazonaws.com/');
    const at = new Date('2015-08-30T12:36:00.789Z');
    const signed = await sign({ ...suite, at, method: 'GET', url, headers: {}, body: undefined });
    expect(signed).toEqual({
      'x-amz-date': '20150830T123600Z',
      authorization: [
        'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request',
        'SignedHeaders=host;x-amz-date',
        'Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
      ].join(', '),
    });
  });
});

describe('sigv4', () => {
  afterEach(() => vi.unstubAllEnvs());

  const request = {
    method: 'GET',
    url: new URL('https://abc.execute-api.eu-west-1.amazonaws.com/v1/health'),
    headers: {},
    body: undefined,
  };

  it('uses the keys of the environment and the Region of the URL', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIDEXAMPLE');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret');
    vi.stubEnv('AWS_SESSION_TOKEN', 'token');
    const headers = await sigv4()(request);
    expect(headers.authorization).toMatch(/Credential=AKIDEXAMPLE\/\d{8}\/eu-west-1\/execute-api\/aws4_request/);
    expect(headers['x-amz-security-token']).toBe('token');
  });

  it('sends no token if the environment has none', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIDEXAMPLE');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret');
    vi.stubEnv('AWS_SESSION_TOKEN', '');
    expect(await sigv4()(request)).not.toHaveProperty('x-amz-security-token');
  });

  it.each([
    ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'],
    ['AWS_SECRET_ACCESS_KEY', 'AWS_ACCESS_KEY_ID'],
  ])('takes the keys of the default chain if the environment has no %s', async (missing, present) => {
    vi.stubEnv(missing, '');
    vi.stubEnv(present, 'from the environment');
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-keys-'));
    const file = join(folder, 'credentials');
    await writeFile(file, '[default]\naws_access_key_id = OFTHECHAIN\naws_secret_access_key = secret\n');
    vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', file);
    const auth = sigv4();
    for (let requests = 0; requests < 2; requests++) {
      expect((await auth(request)).authorization).toContain('Credential=OFTHECHAIN/');
      await rm(folder, { recursive: true, force: true });
    }
  });

  it.each([
    ['the region that is passed', { region: 'eu-north-1' }, request.url.href, 'eu-north-1'],
    ['the Region of the URL', {}, request.url.href, 'eu-west-1'],
    ['AWS_REGION', {}, 'https://locks.example.com/', 'us-west-2'],
  ])('signs for %s first', async (_, options, url, region) => {
    vi.stubEnv('AWS_REGION', 'us-west-2');
    vi.stubEnv('AWS_DEFAULT_REGION', 'us-east-2');
    const auth = sigv4({ credentials: suite.credentials, ...options });
    const { authorization } = await auth({ ...request, url: new URL(url) });
    expect(authorization).toContain(`/${region}/execute-api/aws4_request`);
  });

  it('signs for AWS_DEFAULT_REGION if there is no other, and for another service if asked to', async () => {
    vi.stubEnv('AWS_REGION', undefined);
    vi.stubEnv('AWS_DEFAULT_REGION', 'us-east-2');
    const auth = sigv4({ credentials: suite.credentials, service: 'lambda' });
    const { authorization } = await auth({ ...request, url: new URL('https://locks.example.com/') });
    expect(authorization).toContain('/us-east-2/lambda/aws4_request');
  });

  it.each([
    ['more than five minutes', 300_001, 1],
    ['five minutes', 300_000, 3],
  ])('keeps keys with %s left: %i ms mean %i load(s) for three requests', async (_, leftMs, loads) => {
    vi.useFakeTimers({ now: suite.at, toFake: ['Date'] });
    const expiration = new Date(suite.at.getTime() + leftMs);
    const credentials = vi.fn(async () => ({ ...suite.credentials, expiration }));
    try {
      const auth = sigv4({ credentials });
      for (let requests = 0; requests < 3; requests++) await auth(request);
    } finally {
      vi.useRealTimers();
    }
    expect(credentials).toHaveBeenCalledTimes(loads);
  });

  it('loads keys that have no end once, even for requests at the same time', async () => {
    const credentials = vi.fn(async () => suite.credentials);
    const auth = sigv4({ credentials });
    await Promise.all([auth(request), auth(request)]);
    await auth(request);
    expect(credentials).toHaveBeenCalledTimes(1);
  });

  it('asks for keys once, and again shortly before they expire', async () => {
    let asked = 0;
    const expiration = () => new Date(Date.now() + (asked === 1 ? 60_000 : 3_600_000));
    const auth = sigv4({
      credentials: () => {
        asked += 1;
        return Promise.resolve({ ...suite.credentials, expiration: expiration() });
      },
    });
    await auth(request);
    await auth(request);
    await auth(request);
    expect(asked).toBe(2);
  });

  it('asks once for all requests that find at the same time that the keys expire', async () => {
    const expiring = { ...suite.credentials, expiration: new Date(Date.now() + 60_000) };
    const credentials = vi.fn(async () => suite.credentials).mockResolvedValueOnce(expiring);
    const auth = sigv4({ credentials });
    await auth(request);
    await Promise.all([auth(request), auth(request), auth(request)]);
    expect(credentials).toHaveBeenCalledTimes(2);
  });

  it('asks again after a failure to get keys', async () => {
    let asked = 0;
    const auth = sigv4({
      credentials: () => {
        asked += 1;
        return asked === 1 ? Promise.reject(new Error('no keys yet')) : Promise.resolve(suite.credentials);
      },
    });
    await expect(auth(request)).rejects.toThrow('no keys yet');
    await expect(auth(request)).resolves.toHaveProperty('authorization');
  });

  it('says what is missing if no Region is known', async () => {
    vi.stubEnv('AWS_REGION', undefined);
    vi.stubEnv('AWS_DEFAULT_REGION', undefined);
    const auth = sigv4({ credentials: suite.credentials });
    await expect(auth({ ...request, url: new URL('https://locks.example.com/') })).rejects.toThrow(/region/);
  });
});
