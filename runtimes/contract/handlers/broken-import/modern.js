const missing = require('no-such-package');
module.exports = { main: () => missing() };
