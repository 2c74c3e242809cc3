// The request and response objects of Express, made by node:http itself.
//
// Express changes the prototype of both objects in every request, which takes
// longer than all other work for it: such objects lose V8's fast paths. Here
// node:http constructs them with the right prototypes, and the properties that
// Express adds to each of them are made when they are first read.
'use strict';

const http = require('node:http');
const application = require('express/lib/application.js');
const expressRequest = require('express/lib/request.js');
const expressResponse = require('express/lib/response.js');
const { EventEmitter } = require('node:events');

const HTML = 'text/html; charset=utf-8';
const JSON_TYPE = 'application/json; charset=utf-8';

// createEtag returns a function with the results of Express's, in one call of OpenSSL, which the first call loads.
function createEtag() {
  let crypto;
  return (body, encoding) => {
    crypto ??= require('node:crypto');
    const length = typeof body === 'string' ? Buffer.byteLength(body, encoding) : body.length;
    return `W/"${length.toString(16)}-${crypto.hash('sha1', body, 'base64').slice(0, 27)}"`;
  };
}

// createApplication returns the value of req.app and res.app: an Express application with its settings.
function createApplication() {
  const app = (req, res, next) => app.handle(req, res, next);
  Object.assign(app, EventEmitter.prototype, application);
  const own = (value) => ({ value, configurable: true, enumerable: true, writable: true });
  app.request = Object.create(expressRequest, { app: own(app) });
  app.response = Object.create(expressResponse, { app: own(app) });
  app.init();
  app.disable('x-powered-by');
  app.set('etag', createEtag());
  return app;
}

// lazy defines a property that is computed when it is first read; after a write it is an ordinary property.
function lazy(prototype, name, make) {
  const define = (object, value) => {
    Object.defineProperty(object, name, { value, configurable: true, enumerable: true, writable: true });
    return value;
  };
  Object.defineProperty(prototype, name, {
    configurable: true,
    get() {
      return define(this, make(this));
    },
    set(value) {
      define(this, value);
    },
  });
}

function requestClass(app, next) {
  class Request extends http.IncomingMessage {}
  const { prototype } = Request;
  Object.setPrototypeOf(prototype, app.request);
  prototype.baseUrl = '';
  lazy(prototype, 'originalUrl', (req) => req.url);
  lazy(prototype, 'params', () => ({}));
  lazy(prototype, 'next', (req) => (error) => next(req, error));
  return Request;
}

// isPlain reports whether a response can be sent without Express.
function isPlain(res) {
  const { headers, method } = res.req;
  return hasFullBody(res.statusCode) && method !== 'HEAD' &&
    headers['if-none-match'] === undefined && headers['if-modified-since'] === undefined &&
    !res.hasHeader('content-type') && !res.hasHeader('etag') && !res.hasHeader('transfer-encoding');
}

const hasFullBody = (status) => status !== 204 && status !== 205 && status !== 304;

function sendPlain(res, type, body, etagOf) {
  res.setHeader('Content-Type', type);
  res.setHeader('Content-Length', Buffer.byteLength(body));
  if (etagOf) res.setHeader('ETag', etagOf(body, 'utf8'));
  res.end(body);
  return res;
}

function responseClass(app) {
  const { settings } = app;

  // send and json handle the usual kinds of values here, and leave all others to Express.
  class Response extends http.ServerResponse {
    constructor(req, options) {
      super(req, options);
      req.res = this;
    }

    send(body) {
      if (typeof body !== 'string' || !isPlain(this)) return expressResponse.send.call(this, body);
      return sendPlain(this, HTML, body, settings['etag fn']);
    }

    json(value) {
      const formatted = settings['json escape'] || settings['json replacer'] || settings['json spaces'];
      if (formatted || !isPlain(this)) return expressResponse.json.call(this, value);
      const body = JSON.stringify(value);
      if (body === undefined) return expressResponse.json.call(this, value);
      return sendPlain(this, JSON_TYPE, body, settings['etag fn']);
    }
  }
  Object.setPrototypeOf(Response.prototype, app.response);
  lazy(Response.prototype, 'locals', () => Object.create(null));
  return Response;
}

// createMessages returns the classes for http.createServer. next implements req.next(error).
function createMessages(next) {
  const app = createApplication();
  return { IncomingMessage: requestClass(app, next), ServerResponse: responseClass(app) };
}

module.exports = { createMessages };
