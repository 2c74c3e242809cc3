// Counts the calls of the handler.
//
// A call costs a few additions; a separate part, loaded by the first scrape,
// formats the text for a scraper.
'use strict';

// Upper bounds in milliseconds: OpenTelemetry's defaults for histograms.
const BOUNDS = [0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000];

class Metrics {
  calls = 0;
  failures = 0;
  sum = 0;
  bounds = BOUNDS;
  // One more than bounds: the last counts all values above.
  buckets = new Array(BOUNDS.length + 1).fill(0);
  #loadPart;
  #serviceName;
  #renderer;

  constructor(serviceName, loadPart) {
    this.#serviceName = serviceName;
    this.#loadPart = loadPart;
  }

  called() {
    this.calls += 1;
  }

  ended(ms, failed) {
    if (failed) this.failures += 1;
    this.sum += ms;
    let i = 0;
    while (i < BOUNDS.length && ms > BOUNDS[i]) i += 1;
    this.buckets[i] += 1;
  }

  async render() {
    this.#renderer ??= this.#loadPart('scrape').createRenderer(this, this.#serviceName);
    return this.#renderer();
  }
}

module.exports = { Metrics };
