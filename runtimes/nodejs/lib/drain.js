// Ends the server on SIGTERM or SIGINT: no new connections, busy requests are finished, then exit 0.
//
// The server is PID 1, for which the kernel ignores a signal that has no
// handler, so the handlers are there before the user's code loads.
'use strict';

const net = require('node:net');

// A client may be sending on an idle connection while the signal arrives. For
// this time, such a request is still answered; the response signals the client
// that the connection ends.
const LINGER_MS = 1000;

class Drain {
  #server;
  #dispatcher;
  #finish;
  #sockets = new Set();
  begun = false;

  constructor(signals) {
    for (const signal of signals) {
      process.on(signal, () => this.#begin());
    }
  }

  // attach sets the server to end and the last action.
  attach(server, dispatcher, finish) {
    this.#server = server;
    this.#dispatcher = dispatcher;
    this.#finish = finish;
    server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  #begin() {
    const again = this.begun;
    this.begun = true;
    if (again || !this.#server) {
      process.exit(again ? 1 : 0);
    }
    this.#dispatcher.drain();
    // The HTTP server's own close would end idle connections at once.
    net.Server.prototype.close.call(this.#server, () => this.#finish().finally(() => process.exit(0)));
    setInterval(() => this.#endIdle(), LINGER_MS);
  }

  #endIdle() {
    const busy = new Set();
    for (const { req } of this.#dispatcher.calls) busy.add(req.socket);
    for (const socket of this.#sockets) {
      if (!busy.has(socket)) socket.destroy();
    }
  }
}

module.exports = { Drain };
