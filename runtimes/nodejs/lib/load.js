// The load of the pod, for scaling by HTTP: the numbers of requests received and in progress. Requests from a gateway
// or the bridge are distinguished, because they are counted there, too.
'use strict';

const [OTHER, GATEWAY, EVENTBRIDGE] = [0, 1, 2];

function senderOf({ headers: { 'rouse-via': via } }) {
  if (via === 'gateway') return GATEWAY;
  return via === 'eventbridge' ? EVENTBRIDGE : OTHER;
}

class Load {
  #requests = 0;
  // By sender.
  #running = [0, 0, 0];

  // received counts a request, whatever its outcome.
  received() {
    this.#requests += 1;
  }

  // begin counts a request as in progress, and returns its sender, for end.
  begin(req) {
    const sender = senderOf(req);
    this.#running[sender] += 1;
    return sender;
  }

  end(sender) {
    this.#running[sender] -= 1;
  }

  // watch counts the connections that a handler takes over, as for WebSockets: it listens to the server itself.
  watch(server) {
    const watched = new Set();
    server.on('newListener', (event) => {
      if ((event !== 'upgrade' && event !== 'connect') || watched.has(event)) return;
      watched.add(event);
      server.on(event, (req, socket) => {
        this.received();
        const sender = this.begin(req);
        socket.once('close', () => this.end(sender));
      });
    });
  }

  text() {
    const [other, viaGateway, viaEventbridge] = this.#running;
    return JSON.stringify({ requests: this.#requests, running: other + viaGateway + viaEventbridge, viaGateway, viaEventbridge });
  }
}

module.exports = { Load };
