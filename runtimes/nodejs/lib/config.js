// Settings of the server, read once from the environment that the controller gives a Function's container.
'use strict';

const DEFAULT_TIMEOUT_SECONDS = 180;
const DEFAULT_BODY_LIMIT_MB = 1;
const DEFAULT_PORT = 8080;

// FIRST_MODERN is the first Node.js runtime whose handler is main(req, res).
const FIRST_MODERN = 26;

function positive(text, fallback) {
  const value = Number(text);
  return text && Number.isFinite(value) && value > 0 ? value : fallback;
}

const isSet = (text) => !['', '0', 'false'].includes((text ?? '').toLowerCase());

function portNumber(text) {
  return /^\d+$/.test(text ?? '') && Number(text) < 65536 ? Number(text) : DEFAULT_PORT;
}

// The descriptor that the port is written to, undefined without one. FUNC_PORT is a
// reserved name, so a Function cannot set it.
function descriptor(env) {
  return env.FUNC_PORT === '0' && /^\d+$/.test(env.FUNC_READY_FD ?? '') ? Number(env.FUNC_READY_FD) : undefined;
}

function address(env, modern, ready) {
  if (ready !== undefined) return { host: '127.0.0.1', port: 0 };
  // Only the new runtimes have SERVER_*.
  return {
    host: (modern && env.SERVER_HOST) || '0.0.0.0',
    port: portNumber((modern && env.SERVER_PORT) || env.FUNC_PORT),
  };
}

function fromEnv(env) {
  const runtime = env.FUNC_RUNTIME || `nodejs${process.versions.node.split('.')[0]}`;
  const modern = Number(runtime.replace(/\D/g, '')) >= FIRST_MODERN;
  const ready = descriptor(env);

  return Object.freeze({
    functionName: env.FUNC_NAME ?? '',
    namespace: env.SERVICE_NAMESPACE ?? '',
    runtime,
    modern,
    ready,
    ...address(env, modern, ready),
    timeoutSeconds: positive(env.FUNC_TIMEOUT, DEFAULT_TIMEOUT_SECONDS),
    bodyLimitMb: positive(modern ? env.FUNC_BODY_MB_LIMIT : env.REQ_MB_LIMIT, DEFAULT_BODY_LIMIT_MB),
    publisherAddress: env.PUBLISHER_PROXY_ADDRESS ?? '',
    publisherTokenFile: env.PUBLISHER_TOKEN_FILE ?? '',
    handlerSource: env.FUNC_HANDLER_SOURCE ?? '',
    handlerPath: env.HANDLER_PATH ?? '',
    functionPath: env.FUNCTION_PATH ?? '',
    requestLog: isSet(modern ? env.SERVER_INTERNAL_LOGGER : env.KYMA_INTERNAL_LOGGER_ENABLED),
    traceEndpoint: env.TRACE_COLLECTOR_ENDPOINT ?? '',
    terminationLog: env.TERMINATION_LOG_PATH || '/dev/termination-log',
  });
}

module.exports = { fromEnv };
