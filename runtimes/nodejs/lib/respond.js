// The server's own responses: preflight, time limit, errors.
'use strict';

const { STATUS_CODES } = require('node:http');

// preflight allows the requested method and headers; the handler is not called.
function preflight(req, res) {
  const { 'access-control-request-method': method, 'access-control-request-headers': headers } = req.headers;
  if (method) res.setHeader('Access-Control-Allow-Methods', method);
  if (headers) res.setHeader('Access-Control-Allow-Headers', headers);
  res.end();
}

function sendText(res, status, text) {
  if (res.writableEnded || res.destroyed) return;
  if (res.headersSent) {
    res.destroy();
    return;
  }
  res.statusCode = status;
  res.setHeader('Content-Type', 'text/plain; charset=utf-8');
  res.end(text);
}

// sendStatus responds with the status and its name.
function sendStatus(res, status) {
  sendText(res, status, STATUS_CODES[status] ?? String(status));
}

// sendTimeout responds in place of the handler. The call itself cannot be stopped; its response is dropped.
function sendTimeout(res) {
  if (!res.headersSent) res.setHeader('Connection', 'close');
  sendText(res, 408, 'Request Timeout');
}

// isRefused reports whether the request caused the error and the sender may get the reason.
const isRefused = (error) => error?.expose === true && error.status >= 400 && error.status < 500;

// sendError responds with the error that a body parser or the handler threw; a thrown string is the body.
function sendError(res, error) {
  if (isRefused(error)) {
    sendText(res, error.status, error.message);
    return;
  }
  console.error(error);
  sendText(res, 500, typeof error === 'string' && error !== '' ? error : 'Internal server error');
}

module.exports = { preflight, sendError, sendStatus, sendTimeout };
