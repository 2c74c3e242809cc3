// The API of nodejs26 and later: main(req, res), which answers by itself; its return value is not looked at.
'use strict';

function middleware(main) {
  return async (req, res) => {
    await main(req, res);
  };
}

module.exports = { middleware };
