// Traces: the context of a request goes on to what the handler calls, and spans go to the collector where there is one.
'use strict';

const api = require('@opentelemetry/api');
const { AsyncLocalStorageContextManager } = require('@opentelemetry/context-async-hooks');
const core = require('@opentelemetry/core');
const { B3InjectEncoding, B3Propagator } = require('@opentelemetry/propagator-b3');
const { BasicTracerProvider } = require('@opentelemetry/sdk-trace-base');
const { resourceFromAttributes } = require('@opentelemetry/resources');
const { createProcessor } = require('./export.js');
const { traceOutgoing } = require('./outgoing.js');

const TRACER = 'io.kyma-project.serverless';

// With both forms in a request W3C counts, because it is read last.
const propagator = new core.CompositePropagator({
  propagators: [
    new B3Propagator({ injectEncoding: B3InjectEncoding.MULTI_HEADER }),
    new core.W3CTraceContextPropagator(),
  ],
});

// RequestTrace is what a call carries: its context, and its span where spans are collected.
class RequestTrace {
  #context;
  #span;

  constructor(context, span) {
    this.#context = context;
    this.#span = span;
  }

  run(handle) {
    api.context.with(this.#context, handle);
  }

  end(status, error) {
    const span = this.#span;
    if (!span) return;
    span.setAttribute('http.response.status_code', status);
    if (error !== undefined) {
      const message = String(error?.message ?? error);
      span.setAttribute('error', message);
      span.setStatus({ code: api.SpanStatusCode.ERROR, message });
    } else if (status >= 500) {
      span.setStatus({ code: api.SpanStatusCode.ERROR });
    }
    span.end();
  }
}

function describe({ method, url, headers }) {
  const query = url.indexOf('?');
  const attributes = {
    'http.request.method': method,
    'url.scheme': 'http',
    'url.path': query < 0 ? url : url.slice(0, query),
  };
  if (headers.host) attributes['server.address'] = headers.host;
  if (headers['user-agent']) attributes['user_agent.original'] = headers['user-agent'];
  return attributes;
}

// contextOf is the context of a trace that goes on without a span.
function contextOf({ traceId, spanId, sampled, state }) {
  return api.trace.setSpanContext(api.ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: sampled ? api.TraceFlags.SAMPLED : api.TraceFlags.NONE,
    traceState: state ? new core.TraceState(state) : undefined,
    isRemote: true,
  });
}

// register makes the API's functions work for the handler, also through a copy of the API that it brings itself.
function register(provider, contexts) {
  api.context.setGlobalContextManager(contexts);
  api.propagation.setGlobalPropagator(propagator);
  api.trace.setGlobalTracerProvider(provider);
}

// start is called once. traceOf(req) gives the trace that goes on where no spans are collected.
function start(config, traceOf) {
  const processor = createProcessor(config.traceEndpoint);
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({ 'service.name': config.functionName }),
    spanProcessors: processor ? [processor] : [],
  });
  const contexts = new AsyncLocalStorageContextManager().enable();
  register(provider, contexts);
  const tracer = provider.getTracer(TRACER);
  const exporting = processor !== undefined;
  traceOutgoing(tracer, exporting);

  return {
    tracer,
    exporting,
    begin(req) {
      if (!exporting) return new RequestTrace(contextOf(traceOf(req)));
      const parent = propagator.extract(api.ROOT_CONTEXT, req.headers, api.defaultTextMapGetter);
      const span = tracer.startSpan(req.method, { kind: api.SpanKind.SERVER, attributes: describe(req) }, parent);
      return new RequestTrace(api.trace.setSpan(parent, span), span);
    },
    // enter makes the rest of a call that has begun without OpenTelemetry a part of its request's trace.
    enter(req) {
      contexts._asyncLocalStorage.enterWith(contextOf(traceOf(req))); // the API has no name for it
    },
    flush: async () => processor?.finish(),
  };
}

module.exports = { start };
