// The calls that are under way: each has a time limit, and a drain waits for them.
//
// All have the same limit, so the oldest runs out first, and one timer is
// enough for all of them. They are a list and not a Set: the tables that a Set
// leaves behind keep what was in them alive, and the collector of garbage busy.
'use strict';

// The longest time that a timer takes.
const MAX_TIMER_MS = 2 ** 31 - 1;

// Call is one request on its way through the server.
class Call {
  constructor(req, res, now) {
    this.req = req;
    this.res = res;
    this.begun = now;
    // Set when the handler is called.
    this.invoked = 0;
    this.error = undefined;
    this.trace = undefined;
    this.older = undefined;
    this.newer = undefined;
  }
}

// List has the oldest call first. A call that has left refers to no other.
class List {
  #oldest;
  #newest;

  add(call) {
    call.older = this.#newest;
    if (this.#newest === undefined) this.#oldest = call;
    else this.#newest.newer = call;
    this.#newest = call;
  }

  delete(call) {
    const { older, newer } = call;
    if (older !== undefined) older.newer = newer;
    else if (this.#oldest === call) this.#oldest = newer;
    else return;
    if (newer !== undefined) newer.older = older;
    else this.#newest = older;
    call.older = undefined;
    call.newer = undefined;
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

class Calls {
  #underWay = new List();
  #limitMs;
  #expire;
  #ended;
  #timer;

  // expire(call) is called once for a call that takes too long, ended(call, now) for every call when its response is closed.
  constructor(limitSeconds, { expire, ended }) {
    this.#limitMs = Math.min(limitSeconds * 1000, MAX_TIMER_MS);
    this.#expire = expire;
    this.#ended = ended;
    const calls = this;
    // One function for all responses, which is `this` in it.
    this.onClose = function onClose() {
      calls.#end(this[CALL]);
    };
  }

  begin(req, res) {
    const call = new Call(req, res, performance.now());
    res[CALL] = call;
    this.#underWay.add(call);
    res.on('close', this.onClose);
    if (this.#timer === undefined) this.#arm(this.#limitMs);
    return call;
  }

  of(res) {
    return res[CALL];
  }

  [Symbol.iterator]() {
    return this.#underWay[Symbol.iterator]();
  }

  #end(call) {
    this.#underWay.delete(call);
    this.#ended(call, performance.now());
  }

  #arm(ms) {
    this.#timer = setTimeout(() => this.#sweep(), Math.max(Math.ceil(ms), 1));
    this.#timer.unref();
  }

  #sweep() {
    this.#timer = undefined;
    const overdue = performance.now() - this.#limitMs;
    for (const call of this.#underWay) {
      if (call.begun > overdue) {
        this.#arm(call.begun - overdue);
        return;
      }
      this.#underWay.delete(call);
      this.#expire(call);
    }
  }
}

module.exports = { Calls };
