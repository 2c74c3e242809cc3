// Writes a line to stdout for every request, in Apache's combined format.
'use strict';

const morgan = require('morgan');

function createLog() {
  const log = morgan('combined');
  const next = () => {};
  return (req, res) => log(req, res, next);
}

module.exports = { createLog };
