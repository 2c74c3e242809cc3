// A handler's use of req and res has the same results as in an application of Express itself.
'use strict';

const assert = require('node:assert/strict');
const express = require('express');
const { once } = require('node:events');
const { after, before, describe, it } = require('node:test');
const { sendTo, withServer } = require('./server.js');

const copy = JSON.stringify(require.resolve('express'));

// The keys of requests and of responses that a handler can see, in one answer.
const SEEN = `res.json({
  query: req.query, path: req.path, url: req.url, originalUrl: req.originalUrl, baseUrl: req.baseUrl, params: req.params,
  hostname: req.hostname, host: req.host, protocol: req.protocol, secure: req.secure, xhr: req.xhr, fresh: req.fresh,
  subdomains: req.subdomains, ip: req.ip, type: req.is('json'), accepts: req.accepts(['html', 'json']), header: req.get('X-A'),
  locals: res.locals, same: req.res === res && res.req === req && req.app === res.app, sent: res.headersSent,
  settings: [req.app.get('env'), req.app.enabled('x-powered-by'), typeof req.app.locals], next: typeof req.next,
})`;

const HANDLERS = {
  'send of a string': "res.send('grüß')",
  'send of an empty string': "res.send('')",
  'send of nothing': 'res.send()',
  'send of null': 'res.send(null)',
  'send of bytes': "res.send(Buffer.from('abc'))",
  'send of an object': 'res.send({ a: [1] })',
  'send of a number': 'res.send(7)',
  'send with a type of its own': "res.type('text').send('a')",
  'send with a type without a charset': "res.set('Content-Type', 'text/csv').send('a,b')",
  'send with an ETag of its own': "res.set('ETag', '\"own\"').send('a')",
  'send with 201': "res.status(201).send('made')",
  'send with 204': "res.status(204).send('dropped')",
  'send with 205': "res.status(205).send('dropped')",
  'send with 304': "res.status(304).send('dropped')",
  'send with 404': "res.status(404).send('none')",
  'send of a long text': "res.send('x'.repeat(5000))",
  'json of an array': 'res.json([1, 2])',
  'json of a string': "res.json('a')",
  'json of null': 'res.json(null)',
  'json of nothing': 'res.json()',
  'json with a type of its own': "res.type('application/vnd.order+json').json({ a: 1 })",
  'json that is indented': "req.app.set('json spaces', 2); res.json({ a: 1 })",
  'json that is escaped': "req.app.set('json escape', true); res.json({ a: '<b>' })",
  'no ETags': "req.app.disable('etag'); res.json({ a: 1 })",
  jsonp: 'res.jsonp({ a: 1 })',
  'sendStatus': 'res.sendStatus(418)',
  redirect: "res.redirect(301, '/else')",
  cookie: "res.cookie('a', 'b c', { httpOnly: true }).clearCookie('d').send('x')",
  headers: "res.append('Link', ['<a>', '<b>']).vary('Accept').location('/x').links({ next: '/2' }).attachment('a.csv').send('x')",
  format: "res.format({ text: () => res.send('t'), html: () => res.send('h'), json: () => res.json({}) })",
  'parts of a body': "res.write('a'); res.write('b'); res.end('c')",
  'a file that is not there': "res.sendFile('/no/such/file')",
  'a file': 'res.sendFile(__filename)',
  'what it sees': SEEN,
  'locals that it sets': "res.locals.a = 1; res.json({ ...res.locals, url: (req.originalUrl = '/mine') && req.originalUrl })",
  'a router of its own': `const { Router } = require(${copy}); const router = Router();
    router.use('/a', (q, s, next) => { q.seen = q.baseUrl; next(); });
    router.get('/a/:id', (q, s) => s.json({ id: q.params.id, seen: q.seen, after: q.baseUrl, route: q.route.path, url: q.originalUrl }));
    router(req, res, (error) => res.status(error ? 500 : 404).send('none'))`,
  'an application of its own': `const app = require(${copy})(); app.disable('x-powered-by');
    app.get('/a/:id', (q, s) => s.json({ id: q.params.id, query: q.query, url: q.originalUrl, locals: s.locals }));
    app(req, res)`,
};

const HOST = 'a.b.example.com:80';

const REQUESTS = {
  GET: { method: 'GET', path: '/a/7?b=1&c=x%20y', headers: { 'x-a': 'b', accept: 'application/json', host: HOST } },
  HEAD: { method: 'HEAD', path: '/a/7', headers: { host: HOST } },
  POST: { method: 'POST', path: '/a/7?callback=cb', headers: { 'content-type': 'application/json', host: HOST }, body: '{"a":1}' },
};

const source = `
const handlers = { ${Object.entries(HANDLERS).map(([name, body]) => `${JSON.stringify(name)}: (req, res) => { ${body}; }`).join(',\n')} };
exports.main = (req, res) => {
  for (const [name, value] of Object.entries({ 'json spaces': undefined, 'json escape': undefined })) req.app.set(name, value);
  req.app.set('etag', 'weak');
  return handlers[decodeURIComponent(req.get('handler'))](req, res);
};`;

// The allowed differences: the time, keep-alive headers, and the page of an error.
const DIFFERENT = ['date', 'keep-alive', 'connection'];
const OF_ERRORS = ['content-length', 'content-type', 'content-security-policy', 'x-content-type-options'];
const ERRORS = /file that is not there/;

function comparable({ status, headers, text }, name) {
  const failed = ERRORS.test(name);
  const different = failed ? [...DIFFERENT, ...OF_ERRORS] : DIFFERENT;
  const kept = Object.entries(headers).filter(([header]) => !different.includes(header));
  return { status, headers: Object.fromEntries(kept), text: failed ? '' : text };
}

describe('req and res', { concurrency: 1 }, () => {
  let reference;
  let ours;
  let stop;

  before(async () => {
    process.env.NODE_ENV = 'production';
    const module = { exports: {} };
    new Function('require', 'exports', '__filename', source)(require, module.exports, __filename);
    const app = express();
    app.disable('x-powered-by');
    app.use((req, res, next) => {
      res.set('Access-Control-Allow-Origin', '*');
      next();
    });
    app.use((req, res) => module.exports.main(req, res));
    reference = app.listen(0, '0.0.0.0');
    await once(reference, 'listening');

    const running = resolvers();
    stop = resolvers();
    withServer({ source: source.replaceAll('__filename', JSON.stringify(__filename)), environment: { FUNC_RUNTIME: 'nodejs26', NODE_ENV: 'production' } }, async (server) => {
      running.resolve(await server.listening());
      await stop.promise;
    }).catch(running.reject);
    ours = await running.promise;
  });

  after(() => {
    stop.resolve();
    reference.closeAllConnections();
    reference.close();
  });

  for (const [method, request] of Object.entries(REQUESTS)) {
    for (const name of Object.keys(HANDLERS)) {
      it(`${method}: ${name}`, async () => {
        const asked = { ...request, headers: { ...request.headers, handler: encodeURIComponent(name) } };
        const want = await sendTo(reference.address().port, asked);
        const got = await sendTo(ours.port, asked);
        assert.deepEqual(comparable(got, name), comparable(want, name));
      });
    }
  }

  it('GET with the ETag of the answer is 304', async () => {
    const asked = { ...REQUESTS.GET, headers: { handler: 'json of an array' } };
    const { headers: { etag } } = await sendTo(ours.port, asked);
    const again = await sendTo(ours.port, { ...asked, headers: { ...asked.headers, 'if-none-match': etag } });
    assert.deepEqual([again.status, again.text], [304, '']);
  });
});

function resolvers() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}
