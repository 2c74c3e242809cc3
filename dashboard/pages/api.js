// Requests to the API. The token of a home on this machine stays in this tab: cookies would go to every port of this machine. A home with
// sessions has a cookie that no script sees.

const tokenKey = "rouse-token";
const others = new BroadcastChannel("rouse-dashboard");
let token = sessionStorage.getItem(tokenKey) ?? "";

/** hasToken reports whether there is a token to log in with. */
export const hasToken = () => token !== "";

/** @param {string} text */
export function logIn(text) {
  token = text.trim();
  sessionStorage.setItem(tokenKey, token);
}

others.onmessage = ({ data }) => {
  if (data === "token?" && token) others.postMessage({ token });
};

/** begin takes the token of the address, or that of another tab, which has a moment to answer. */
export async function begin() {
  if (location.hash.length > 16) {
    logIn(decodeURIComponent(location.hash.slice(1).replace(/^token=/, "")));
    history.replaceState(null, "", location.pathname + location.search);
  }
  if (token || document.querySelector("meta[name=login]")) return; // with sessions there is no token that another tab may have
  await new Promise((done) => {
    const later = setTimeout(done, 300);
    const answered = new BroadcastChannel("rouse-dashboard");
    answered.onmessage = ({ data }) => {
      if (typeof data?.token !== "string") return;
      logIn(data.token);
      clearTimeout(later);
      answered.close();
      done(undefined);
    };
    answered.postMessage("token?");
  });
}

/** @type {(failure: Failure) => void} */ let whenLoggedOut = () => {};

/** onLoggedOut is told when a session has ended. @param {(failure: Failure) => void} call */
export const onLoggedOut = (call) => {
  whenLoggedOut = call;
};

/** Failure is an answer that is an error: its message says what to do. */
class Failure extends Error {
  /** @param {number} status @param {string} message @param {string} [login] what a user has to log in with @param {string} [issuer] or where */
  constructor(status, message, login, issuer) {
    super(message);
    this.status = status;
    this.login = login;
    this.issuer = issuer;
  }
}

/** @param {string} path @param {RequestInit} [init] */
async function ask(path, init = {}) {
  const headers = new Headers(init.headers);
  if (token) headers.set("Authorization", `Bearer ${token}`);
  let response;
  try {
    response = await fetch(path, { ...init, headers, cache: "no-store" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Failure(0, "The dashboard does not answer: start the command again that serves it, and open the address that it prints.");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  const failure = new Failure(response.status, body.error ?? `The answer was ${response.status}.`, body.login, body.issuer);
  if (failure.login && path !== "/api/v1/login") whenLoggedOut(failure);
  throw failure;
}

/** get reads JSON. @param {string} path @param {AbortSignal} [signal] */
export const get = async (path, signal) => (await ask(path, { signal })).json();

/** post sends JSON. @param {string} path @param {any} body */
export const post = async (path, body) =>
  (await ask(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } })).json();

/** query writes parameters, without empty ones. @param {Record<string, string | undefined>} values */
export function query(values) {
  const entries = Object.entries(values).filter(([, value]) => value);
  return entries.length ? `?${new URLSearchParams(/** @type {[string, string][]} */ (entries))}` : "";
}

/**
 * stream follows server-sent events until it is ended, and connects again when it breaks or the page is seen again.
 * @param {string} path
 * @param {Record<string, (data: any) => void>} handlers  by event; "open" and "lost" report the state of the connection
 * @returns {() => void} ends it
 */
export function stream(path, handlers) {
  let ended = false;
  let current = new AbortController();
  const follow = async () => {
    for (let failures = 0; !ended; ) {
      current = new AbortController();
      try {
        const response = await ask(path, { signal: current.signal });
        handlers.open?.(undefined);
        failures = 0;
        await read(response, handlers);
      } catch (error) {
        if (ended) return;
        const refused = error instanceof Failure && error.status >= 400 && error.status < 500;
        if (!document.hidden) handlers.lost?.(error);
        if (refused && /** @type {Failure} */ (error).status !== 429) return;
        failures++;
      }
      if (document.hidden) await seen();
      else await new Promise((done) => setTimeout(done, Math.min(500 * 2 ** failures, 10_000)));
    }
  };
  const hide = () => {
    if (document.hidden) current.abort(); // a hidden page holds no connection
  };
  document.addEventListener("visibilitychange", hide);
  follow();
  return () => {
    ended = true;
    current.abort();
    document.removeEventListener("visibilitychange", hide);
  };
}

function seen() {
  return new Promise((done) => {
    document.addEventListener("visibilitychange", () => done(undefined), { once: true });
  });
}

/** @param {Response} response @param {Record<string, (data: any) => void>} handlers */
async function read(response, handlers) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let waiting = [""]; // the pieces of an event, which may be many, until its end has come
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const text = decoder.decode(value, { stream: true });
    const ends = (waiting[waiting.length - 1].slice(-1) + text).includes("\n\n");
    waiting.push(text);
    if (!ends) continue;
    const events = waiting.join("").split("\n\n");
    waiting = [events.pop() ?? ""];
    for (const event of events) {
      const [name, data] = event.split("\ndata: ", 2);
      if (data) handlers[name.slice("event: ".length)]?.(JSON.parse(data));
    }
  }
}
