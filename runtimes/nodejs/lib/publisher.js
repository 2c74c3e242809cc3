// Sends events to the publisher as structured JSON, over persistent connections.
//
// It uses node:http and not fetch: the server has loaded the former already,
// while the first fetch of a process loads a separate client.
'use strict';

const http = require('node:http');
const { STRUCTURED, build } = require('./cloudevent.js');
const { TokenFile } = require('./token.js');

const TIMEOUT_MS = 30_000;
const MAX_ANSWER = 64 * 1024;

class PublishError extends Error {
  constructor(message, response) {
    super(message);
    this.name = 'PublishError';
    this.response = response;
  }
}

// Publisher is created once for each server; emit may be called concurrently. Only the publisher's address gets the
// token: redirects are not followed.
class Publisher {
  #address;
  #token;
  #client;
  #agent;

  constructor(address, tokenFile) {
    this.#address = address;
    this.#token = new TokenFile(tokenFile);
  }

  // emit resolves with the publisher's response, and rejects when it is not 2xx. chain is the event being handled.
  async emit(type, source, data, attributes, chain) {
    if (!this.#address) {
      throw new PublishError('cannot emit a CloudEvent: PUBLISHER_PROXY_ADDRESS is not set');
    }
    const body = Buffer.from(JSON.stringify(build(type, source, data, attributes, chain)));
    const response = await this.#post(body);
    if (response.status < 200 || response.status > 299) {
      throw new PublishError(`publisher answered ${response.status}: ${response.data.trim()}`, response);
    }
    return response;
  }

  #connect() {
    if (!this.#client) {
      this.#client = this.#address.startsWith('https:') ? require('node:https') : http;
      this.#agent = new this.#client.Agent({ keepAlive: true, timeout: TIMEOUT_MS });
    }
  }

  // A connection that the publisher closed while it was idle is no failure of the
  // event: its id makes a repeat harmless.
  async #post(body) {
    this.#connect();
    for (;;) {
      const attempt = { reused: false };
      try {
        return await this.#send(body, attempt);
      } catch (error) {
        if (!(attempt.reused && error.code === 'ECONNRESET')) {
          throw new PublishError(`cannot reach the publisher: ${error.message}`);
        }
      }
    }
  }

  #send(body, attempt) {
    const { promise, resolve, reject } = withResolvers();
    const headers = { 'content-type': STRUCTURED, 'content-length': body.length };
    const token = this.#token.read();
    if (token) headers.authorization = `Bearer ${token}`;
    const request = this.#client.request(this.#address, { method: 'POST', headers, agent: this.#agent });
    const timer = setTimeout(() => request.destroy(new Error(`no answer within ${TIMEOUT_MS / 1000} s`)), TIMEOUT_MS);
    request.once('close', () => clearTimeout(timer));
    request.once('error', (error) => {
      attempt.reused = request.reusedSocket;
      reject(error);
    });
    request.once('response', (answer) => readAnswer(answer).then(resolve, reject));
    request.end(body);
    return promise;
  }
}

async function readAnswer(answer) {
  let data = '';
  answer.setEncoding('utf8');
  for await (const chunk of answer) {
    if (data.length < MAX_ANSWER) data += chunk;
  }
  return { status: answer.statusCode, statusText: answer.statusMessage, headers: answer.headers, data };
}

function withResolvers() {
  const out = {};
  out.promise = new Promise((resolve, reject) => Object.assign(out, { resolve, reject }));
  return out;
}

module.exports = { Publisher };
