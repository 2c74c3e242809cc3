// The API of nodejs26 and later: main(req, res), which answers by itself; its return value is ignored.
'use strict';

// createInvoke returns what calls the handler; a promise that it returns matters only when it fails.
function createInvoke(main) {
  return (req, res) => {
    const pending = main(req, res);
    return typeof pending?.then === 'function' ? pending : undefined;
  };
}

module.exports = { createInvoke };
