// Who is logged in, and how to.
import { hasToken, logIn, post } from "../api.js";
import { h } from "../dom.js";
import { failure } from "../parts.js";
import { state } from "../store.js";

const namespaceKey = "rouse-namespace";

/**
 * logInForm asks for what the home takes: the token of a command on this machine, or one of Kubernetes.
 * @param {Error & {login?: string, issuer?: string}} error @param {() => void} connect
 */
export const logInForm = (error, connect) => (error.login === "token" ? tokenForm(error) : localForm(error, connect));

/** @param {Error} error @param {() => void} connect */
const localForm = (error, connect) =>
  h(
    "form",
    {
      key: "local",
      class: "login panel",
      onsubmit: (/** @type {SubmitEvent} */ submit) => {
        submit.preventDefault();
        logIn(String(new FormData(/** @type {HTMLFormElement} */ (submit.target)).get("token")));
        connect();
      },
    },
    h("h1", null, "Log in"),
    hasToken() ? failure(error) : null,
    h(
      "p",
      null,
      "Open the address that ",
      h("code", null, "rouse dev"),
      " or ",
      h("code", null, "rouse dashboard"),
      " has printed: it has the token behind the #. Or paste the token here.",
    ),
    h("label", null, "Token", h("input", { name: "token", type: "password", autocomplete: "off", required: true })),
    h("button", { class: "main" }, "Log in"),
  );

/** @type {Error | null} */ let refused = null;

/** @param {Error & {issuer?: string}} error */
const tokenForm = (error) =>
  h(
    "form",
    { key: "token", class: "login panel", onsubmit: submitToken },
    h("h1", null, "Log in"),
    refused ? failure(refused) : error.message.startsWith("log in") ? null : failure(error),
    error.issuer
      ? [wantedNamespace(), h("button", { class: "main", type: "button", onclick: logInAtIssuer }, `Log in with ${error.issuer}`)]
      : null,
    h(
      "p",
      null,
      error.issuer ? "Or with" : "With",
      " a token of Kubernetes. One of a ServiceAccount is made by ",
      h("code", null, "kubectl create token NAME -n NAMESPACE"),
      ".",
    ),
    h("label", null, "Token", h("input", { name: "token", type: "password", autocomplete: "off", required: true })),
    error.issuer ? null : wantedNamespace(),
    h("button", { class: error.issuer ? "" : "main" }, "Log in"),
  );

const wantedNamespace = () =>
  h("label", null, "Namespace, if you may not see all", namespaceInput(localStorage.getItem(namespaceKey) ?? ""));

/** logInAtIssuer goes to the issuer, which leads back to this page. @param {MouseEvent} click */
async function logInAtIssuer(click) {
  const form = /** @type {HTMLButtonElement} */ (click.currentTarget).form;
  const namespace = String(new FormData(/** @type {HTMLFormElement} */ (form)).get("namespace")).trim();
  try {
    const next = await post("/api/v1/login/issuer", { namespace, path: location.pathname + location.search });
    localStorage.setItem(namespaceKey, namespace);
    location.assign(next.location);
  } catch (error) {
    refused = /** @type {Error} */ (error);
    addressed();
  }
}

/** @param {string} value */
const namespaceInput = (value) =>
  h("input", { name: "namespace", type: "text", autocomplete: "off", spellcheck: "false", maxlength: 63, value });

/** @param {SubmitEvent} submit */
async function submitToken(submit) {
  submit.preventDefault();
  const values = new FormData(/** @type {HTMLFormElement} */ (submit.target));
  const namespace = String(values.get("namespace")).trim();
  try {
    await post("/api/v1/login", { token: String(values.get("token")).trim(), namespace });
    localStorage.setItem(namespaceKey, namespace);
    location.reload(); // nothing of the user before stays
  } catch (error) {
    refused = /** @type {Error} */ (error);
    addressed();
  }
}

/** addressed draws again. */
let addressed = () => {};

/** drawLogin is told how to draw again. @param {() => void} render */
export const drawLogin = (render) => {
  addressed = render;
};

/** account is the user, the namespace and the way out, in a home with sessions. */
export function account() {
  const user = state.about?.user;
  if (!user?.session) return null;
  return h(
    "div",
    { class: "account" },
    h("p", { class: "faint clip", title: user.name }, user.name.split(":").pop()),
    h(
      "form",
      {
        onsubmit: (/** @type {SubmitEvent} */ submit) => {
          submit.preventDefault();
          const values = new FormData(/** @type {HTMLFormElement} */ (submit.target));
          leave("/api/v1/namespace", { namespace: String(values.get("namespace")).trim() });
        },
      },
      h("label", null, h("span", { class: "faint" }, "Namespace"), namespaceInput(user.namespace ?? "")),
    ),
    changed ? h("p", { class: "bad", role: "alert" }, changed) : null,
    h("button", { class: "plain", type: "button", onclick: () => leave("/api/v1/logout", {}) }, "Log out"),
  );
}

let changed = "";

/** leave asks for another view of the cluster, or for none, and begins anew. @param {string} path @param {any} body */
async function leave(path, body) {
  try {
    const next = await post(path, body);
    if (next.location) location.assign(next.location);
    else location.reload();
  } catch (error) {
    changed = /** @type {Error} */ (error).message;
    addressed();
  }
}
