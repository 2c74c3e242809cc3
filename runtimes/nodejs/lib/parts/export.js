// Sends spans to the collector in batches. A collector that cannot be reached costs a line in the log now and then.
'use strict';

const { setGlobalErrorHandler } = require('@opentelemetry/core');
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-http');
const { BatchSpanProcessor } = require('@opentelemetry/sdk-trace-base');

// How long the end of the server waits for the last batch.
const FLUSH_MS = 2000;
const QUIET_MS = 10 * 60_000;

function createComplain() {
  let saidAt = -Infinity;
  return (error) => {
    const now = performance.now();
    if (now - saidAt < QUIET_MS) return;
    saidAt = now;
    console.error(`traces are not exported: ${error?.message ?? error}`);
  };
}

// Processor gathers spans until there are enough, or some time has passed.
class Processor extends BatchSpanProcessor {
  // finish sends what is left, unless that takes too long. It never rejects.
  async finish() {
    let timer;
    const limit = new Promise((resolve) => {
      timer = setTimeout(resolve, FLUSH_MS);
    });
    await Promise.race([this.shutdown().catch(() => {}), limit]);
    clearTimeout(timer);
  }
}

// createProcessor returns undefined when there is no collector.
function createProcessor(endpoint) {
  if (!endpoint) return undefined;
  const complain = createComplain();
  setGlobalErrorHandler(complain);
  if (!URL.canParse(endpoint)) {
    complain('TRACE_COLLECTOR_ENDPOINT is not a URL');
    return undefined;
  }
  return new Processor(new OTLPTraceExporter({ url: endpoint }));
}

module.exports = { createProcessor };
