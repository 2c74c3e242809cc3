// A minimal server on node:http, the benchmark's reference: see e2e/bench/runtime.
'use strict';

const http = require('node:http');

const greeting = process.env.GREETING;

const server = http.createServer((req, res) => {
  res.setHeader('Content-Type', 'text/html; charset=utf-8');
  res.end(greeting);
});
server.listen(Number(process.env.FUNC_PORT), '127.0.0.1', () => console.log(`listening on 127.0.0.1:${server.address().port}`));
