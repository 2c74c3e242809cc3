// The module that a handler loads with `require('sdk')` or `import ... from 'sdk'`.
//
// The server is already loaded when a handler loads, so this is the server's own
// instance. Each name is exported on a separate line, because Node.js finds the
// named imports of a CommonJS module in this way.
'use strict';

const { sdk } = require('../server.js');

exports.getTracer = sdk.getTracer;
exports.getCloudEvent = sdk.getCloudEvent;
exports.emitCloudEvent = sdk.emitCloudEvent;
exports.getFunctionName = sdk.getFunctionName;
exports.getNamespace = sdk.getNamespace;
exports.getRuntime = sdk.getRuntime;
exports.getTimeout = sdk.getTimeout;
exports.getBodySizeLimit = sdk.getBodySizeLimit;
