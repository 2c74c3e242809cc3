// Answers that the server gives by itself: CORS, time limit, errors.
'use strict';

// cors allows every origin; a preflight is answered here and does not reach the handler.
function cors(req, res, next) {
  res.set('Access-Control-Allow-Origin', '*');
  if (req.method !== 'OPTIONS') {
    next();
    return;
  }
  const { 'access-control-request-method': method, 'access-control-request-headers': headers } = req.headers;
  if (method) res.set('Access-Control-Allow-Methods', method);
  if (headers) res.set('Access-Control-Allow-Headers', headers);
  res.status(200).end();
}

// The longest time that a timer takes.
const MAX_TIMER_MS = 2 ** 31 - 1;

// deadline answers 408 when the handler has not answered in time. The call itself
// cannot be stopped; its answer is dropped.
function deadline(seconds) {
  const ms = Math.min(seconds * 1000, MAX_TIMER_MS);
  return (req, res, next) => {
    const timer = setTimeout(() => expire(res), ms);
    res.once('close', () => clearTimeout(timer));
    next();
  };
}

function expire(res) {
  if (res.headersSent) {
    res.destroy();
    return;
  }
  res.set('Connection', 'close');
  res.status(408).type('text').end('Request Timeout');
}

// errors answers what a body parser or the handler threw; a thrown string is the body.
// Express knows an error handler by its four parameters.
function errors(error, req, res, _next) {
  const refused = error?.expose === true && error.status >= 400 && error.status < 500;
  if (!refused) {
    console.error(error);
  }
  if (res.writableEnded) return;
  if (res.headersSent) {
    res.destroy();
    return;
  }
  res.status(refused ? error.status : 500).type('text').end(errorText(error, refused));
}

function errorText(error, refused) {
  if (refused) return error.message;
  return typeof error === 'string' && error !== '' ? error : 'Internal server error';
}

module.exports = { cors, deadline, errors };
