// The API of nodejs26 and later: main(req, res), which sends the response itself; its return value is ignored.
'use strict';

// Handlers return what Express or a timer gave them, too. A handler for the older API returns data.
function isData(value) {
  if (typeof value !== 'object') return value !== undefined && typeof value !== 'function';
  return Array.isArray(value) || Buffer.isBuffer(value) || (value !== null && Object.getPrototypeOf(value) === Object.prototype);
}

// createInvoke returns a function that calls the handler; a returned promise matters only when it rejects. Callers of
// a handler that returns its answer instead of sending it would wait for the timeout without a hint, so the log has one.
function createInvoke(main) {
  let told = false;
  const returned = (value, res) => {
    if (told || res.headersSent || !isData(value)) return;
    told = true;
    console.warn('main has returned a value and sent no response: this runtime calls main(req, res) and ignores what it returns; send the value with res.send(value)');
  };
  return (req, res) => {
    const pending = main(req, res);
    if (typeof pending?.then === 'function') return pending.then((value) => returned(value, res));
    returned(pending, res);
    return undefined;
  };
}

module.exports = { createInvoke };
