// The least that Kyma's contract wants of an image for Node.js, on a free port.
import http from 'node:http';
import path from 'node:path';
import { createRequire } from 'node:module';

const { main } = createRequire(import.meta.url)(path.resolve(process.env.HANDLER_PATH));
const server = http.createServer((req, res) => res.end(req.url === '/healthz' ? 'OK' : main()));
server.listen(0, '127.0.0.1', () => console.log(`listening ${server.address().port}`));
