// The functions of the `sdk` module for handlers.
'use strict';

const { toCloudEvent } = require('./cloudevent.js');
const { chain } = require('./current.js');

function createSdk(config, publisher, tracing) {
  return {
    getTracer: () => tracing.tracer(),
    getCloudEvent: (req) => toCloudEvent(req),
    emitCloudEvent: (type, source, data, attributes) => publisher.emit(type, source, data, attributes, chain()),
    getFunctionName: () => config.functionName,
    getNamespace: () => config.namespace,
    getRuntime: () => config.runtime,
    getTimeout: () => config.timeoutSeconds,
    getBodySizeLimit: () => config.bodyLimitMb,
  };
}

module.exports = { createSdk };
