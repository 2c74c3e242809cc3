// Renders the metrics for Prometheus: the Function's, and those of its process.
'use strict';

const Registry = require('prom-client/lib/registry.js');

// All but those that need a running observer, which a Function would pay for between scrapes.
const PROCESS = [
  require('prom-client/lib/metrics/processCpuTotal.js'),
  require('prom-client/lib/metrics/processStartTime.js'),
  require('prom-client/lib/metrics/osMemoryHeap.js'),
  require('prom-client/lib/metrics/processOpenFileDescriptors.js'),
  require('prom-client/lib/metrics/processMaxFileDescriptors.js'),
  require('prom-client/lib/metrics/heapSizeAndUsed.js'),
  require('prom-client/lib/metrics/version.js'),
];

// metric is one that is read when it is scraped, in the form that the registry takes.
const metric = (name, type, help, read) => ({
  name,
  get: async () => ({ name, type, help, aggregator: 'sum', values: read() }),
});

const single = (read) => () => [{ labels: {}, value: read() }];

function histogramValues(name, metrics) {
  let count = 0;
  const values = metrics.buckets.map((inBucket, i) => {
    count += inBucket;
    return { metricName: `${name}_bucket`, labels: { le: metrics.bounds[i] ?? '+Inf' }, value: count };
  });
  return [...values, { metricName: `${name}_sum`, labels: {}, value: metrics.sum }, { metricName: `${name}_count`, labels: {}, value: count }];
}

// createRenderer returns a function that resolves with the text of a scrape and its Content-Type.
function createRenderer(metrics, serviceName) {
  const registry = new Registry();
  const duration = 'function_duration_miliseconds';
  const target = { service_name: serviceName, telemetry_sdk_language: 'nodejs' };
  const own = [
    metric('target_info', 'gauge', 'Target metadata', () => [{ labels: target, value: 1 }]),
    metric('function_calls_total', 'counter', 'Number of calls to user function', single(() => metrics.calls)),
    metric('function_failures_total', 'counter', 'Number of exceptions in user function', single(() => metrics.failures)),
    metric(duration, 'histogram', 'Duration of user function in miliseconds', () => histogramValues(duration, metrics)),
  ];
  for (const each of own) registry.registerMetric(each);
  for (const observe of PROCESS) observe(registry);
  return async () => ({ type: registry.contentType, text: await registry.metrics() });
}

module.exports = { createRenderer };
