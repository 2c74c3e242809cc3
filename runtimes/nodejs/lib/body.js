// Parses a request's body by its Content-Type: JSON, text, form, or else bytes.
'use strict';

const express = require('express');

const hasBody = ({ headers }) =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length']) > 0;

function mediaType(req) {
  const type = req.headers['content-type'] ?? '';
  const end = type.indexOf(';');
  return (end < 0 ? type : type.slice(0, end)).trim().toLowerCase();
}

// parser returns one middleware that leaves req.body undefined where there is no body.
function parser(limitMb) {
  const limit = limitMb * 1024 * 1024;
  const any = () => true;
  const json = express.json({ limit, type: any, strict: false });
  const text = express.text({ limit, type: any });
  const form = express.urlencoded({ limit, type: any, extended: true });
  const raw = express.raw({ limit, type: any });

  const choose = (type) => {
    if (type === 'application/json' || type === 'application/cloudevents+json') return json;
    if (type.startsWith('text/')) return text;
    if (type === 'application/x-www-form-urlencoded') return form;
    return raw;
  };
  return (req, res, next) => (hasBody(req) ? choose(mediaType(req))(req, res, next) : next());
}

module.exports = { mediaType, parser };
