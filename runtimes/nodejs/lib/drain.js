// Ends the server on SIGTERM or SIGINT: no new connections, busy requests are finished, then exit 0.
//
// The server is PID 1, for which the kernel ignores a signal that has no
// handler, so the handlers are there before the user's code loads.
'use strict';

class Drain {
  #server;
  begun = false;

  constructor(signals) {
    for (const signal of signals) {
      process.on(signal, () => this.#begin());
    }
  }

  // attach names the server to close. A response that goes out while draining
  // leaves its connection idle, and idle connections would keep the server open.
  attach(server) {
    this.#server = server;
    server.on('request', (req, res) => {
      res.once('close', () => {
        if (this.begun) setImmediate(() => server.closeIdleConnections());
      });
    });
  }

  #begin() {
    const again = this.begun;
    this.begun = true;
    if (again || !this.#server) {
      process.exit(again ? 1 : 0);
    }
    this.#server.close(() => process.exit(0));
  }
}

module.exports = { Drain };
