// The API of nodejs26 and later: main(req, res), which sends the response itself; its return value is ignored.
'use strict';

// createInvoke returns a function that calls the handler; a returned promise matters only when it rejects.
function createInvoke(main) {
  return (req, res) => {
    const pending = main(req, res);
    return typeof pending?.then === 'function' ? pending : undefined;
  };
}

module.exports = { createInvoke };
