// Parses a request's body by its Content-Type: JSON, text, form, or else bytes.
'use strict';


const STRUCTURED = 'application/cloudevents+json';

const hasBody = ({ headers }) =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length']) > 0;

function mediaType(req) {
  const type = req.headers['content-type'] ?? '';
  const end = type.indexOf(';');
  return (end < 0 ? type : type.slice(0, end)).trim().toLowerCase();
}

function kindOf(type) {
  if (type === 'application/json' || type === STRUCTURED) return 'json';
  if (type.startsWith('text/')) return 'text';
  return type === 'application/x-www-form-urlencoded' ? 'form' : 'raw';
}

// parser returns one middleware for all kinds of bodies; it is for requests that have one.
// The first body of a kind loads its parser.
function parser(limitMb) {
  const limit = limitMb * 1024 * 1024;
  const any = () => true;
  const made = {};
  const kinds = {
    json: () => require('body-parser/lib/types/json.js')({ limit, type: any, strict: false }),
    text: () => require('body-parser/lib/types/text.js')({ limit, type: any }),
    form: () => require('body-parser/lib/types/urlencoded.js')({ limit, type: any, extended: true }),
    raw: () => require('body-parser/lib/types/raw.js')({ limit, type: any }),
  };
  return (req, res, next) => {
    const kind = kindOf(mediaType(req));
    made[kind] ??= kinds[kind]();
    made[kind](req, res, next);
  };
}

module.exports = { STRUCTURED, hasBody, mediaType, parser };
