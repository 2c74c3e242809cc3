// The calls in progress: each has a time limit, and a drain waits for them.
//
// The limit is for silence: a call that still sends or receives continues. Node.js keeps such a timer for each socket,
// and restarts it with all activity there. The calls are a list and not a Set: the discarded tables of a Set keep
// former elements alive and the garbage collector busy.
'use strict';

// The longest time of a timer.
const MAX_TIMER_MS = 2 ** 31 - 1;

// Call is one request in the server.
class Call {
  constructor(req, res) {
    this.req = req;
    this.res = res;
    // Set when the handler is called.
    this.invoked = 0;
    this.error = undefined;
    this.trace = undefined;
    this.sender = 0;
    this.older = undefined;
    this.newer = undefined;
  }
}

// List has the oldest call first. A removed call has no reference to another.
class List {
  #oldest;
  #newest;

  add(call) {
    call.older = this.#newest;
    if (this.#newest === undefined) this.#oldest = call;
    else this.#newest.newer = call;
    this.#newest = call;
  }

  // delete returns false for a call that was removed before.
  delete(call) {
    const { older, newer } = call;
    if (older !== undefined) older.newer = newer;
    else if (this.#oldest === call) this.#oldest = newer;
    else return false;
    if (newer !== undefined) newer.older = older;
    else this.#newest = older;
    call.older = undefined;
    call.newer = undefined;
    return true;
  }

  *[Symbol.iterator]() {
    for (let call = this.#oldest; call !== undefined;) {
      const { newer } = call;
      yield call;
      call = newer;
    }
  }
}

const CALL = Symbol('call');
const WATCHED = Symbol('watched');

class Calls {
  #underWay = new List();
  #limitMs;
  #ended;

  // expire(call) is called for a call that exceeds the limit, ended(call, now) once for every call when its response is
  // closed.
  constructor(limitSeconds, { expire, ended }) {
    this.#limitMs = Math.min(Math.max(Math.ceil(limitSeconds * 1000), 1), MAX_TIMER_MS);
    this.#ended = ended;
    const calls = this;
    // One function for all responses, with the response as `this`.
    this.onClose = function onClose() {
      calls.#end(this[CALL]);
    };
    this.onTimeout = function onTimeout() {
      expire(this[CALL]);
    };
  }

  begin(req, res) {
    const call = new Call(req, res);
    res[CALL] = call;
    this.#underWay.add(call);
    res.on('close', this.onClose);
    // The socket's timer signals the response that the socket is writing. It ends with that response: the next request
    // starts without a timer.
    res.on('timeout', this.onTimeout);
    req.socket.setTimeout(this.#limitMs);
    if (res.socket === null) this.#watch(req.socket);
    return call;
  }

  of(res) {
    return res[CALL];
  }

  [Symbol.iterator]() {
    return this.#underWay[Symbol.iterator]();
  }

  // A response that waits for an earlier one of its connection does not get the event of the connection's end.
  #watch(socket) {
    if (socket[WATCHED]) return;
    socket[WATCHED] = true;
    socket.once('close', () => {
      for (const call of this) if (call.req.socket === socket) this.#end(call);
    });
  }

  #end(call) {
    if (this.#underWay.delete(call)) this.#ended(call, performance.now());
  }
}

module.exports = { Calls };
