// Elements from descriptions. Text becomes text nodes and nothing else, so that no name, log or event is read as markup.

/**
 * @typedef {{tag: string, attrs: Record<string, any>, key: string | undefined, children: Child[]}} Node
 * @typedef {Node | string} Child
 * @typedef {Element & {attrsBefore?: Record<string, any>, keyBefore?: string, listeners?: Record<string, (event: any) => void>}} Patched
 */

/**
 * h describes an element. Attributes: on* are listeners, style is an object, false and undefined leave an attribute out.
 * @param {string} tag
 * @param {Record<string, any> | null} [attrs]
 * @param {...any} children
 * @returns {Node}
 */
export function h(tag, attrs, ...children) {
  return { tag, attrs: attrs ?? {}, key: attrs?.key, children: flat(children) };
}

/** flat leaves out what shows nothing, in lists of lists. @param {any} children @returns {Child[]} */
export function flat(children) {
  return [children]
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && typeof child !== "boolean" && child !== "")
    .map((child) => (typeof child === "object" ? child : String(child)));
}

const textNode = 3;
export const svgNamespace = "http://www.w3.org/2000/svg";

/**
 * patch makes the children of an element those that are described. Elements stay where their tag and key do, and with them the focus.
 * @param {Element} parent
 * @param {Child[]} wanted
 */
export function patch(parent, wanted) {
  const keyed = new Map();
  for (const child of Array.from(parent.children)) {
    const key = /** @type {Patched} */ (child).keyBefore;
    if (key !== undefined) keyed.set(key, child);
  }
  let at = parent.firstChild;
  for (const child of wanted) {
    if (typeof child === "string") {
      if (at?.nodeType === textNode) {
        const text = /** @type {Text} */ (at);
        if (text.data !== child) text.data = child;
        at = at.nextSibling;
      } else {
        parent.insertBefore(document.createTextNode(child), at);
      }
      continue;
    }
    let element = child.key !== undefined ? keyed.get(child.key) : fits(at, child) ? at : null;
    if (element && element.tagName.toLowerCase() !== child.tag.toLowerCase()) element = null;
    if (element) keyed.delete(child.key);
    element ??= create(parent, child);
    if (element === at) at = at?.nextSibling ?? null;
    else parent.insertBefore(element, at);
    apply(element, child);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** @param {ChildNode | null} at @param {Node} child */
function fits(at, child) {
  const element = /** @type {Patched | null} */ (at);
  return (
    element !== null &&
    element.nodeType !== textNode &&
    element.keyBefore === undefined &&
    element.tagName.toLowerCase() === child.tag.toLowerCase()
  );
}

/** @param {Element} parent @param {Node} child @returns {Patched} */
function create(parent, child) {
  const drawn = child.tag === "svg" || parent.namespaceURI === svgNamespace;
  return drawn ? document.createElementNS(svgNamespace, child.tag) : document.createElement(child.tag);
}

/** @param {Patched} element @param {Node} child */
function apply(element, child) {
  const before = element.attrsBefore ?? {};
  for (const name of Object.keys(before)) {
    if (!(name in child.attrs)) set(element, name, undefined, before[name]);
  }
  if (child.attrs.own !== true) patch(element, child.children); // before the value of a select
  for (const [name, value] of Object.entries(child.attrs)) {
    if (name === "value" || name === "checked" || value !== before[name] || name === "style") set(element, name, value, before[name]);
  }
  element.attrsBefore = child.attrs;
  element.keyBefore = child.key;
}

/** @param {Patched} element @param {string} name @param {any} value @param {any} before */
function set(element, name, value, before) {
  if (name === "key" || name === "own") return;
  if (name.startsWith("on")) {
    listen(element, name.slice(2), value);
  } else if (name === "style") {
    const style = /** @type {HTMLElement} */ (element).style;
    for (const property of Object.keys(before ?? {})) if (!value || !(property in value)) style.removeProperty(property);
    for (const [property, text] of Object.entries(value ?? {})) {
      if (before?.[property] !== text) style.setProperty(property, String(text));
    }
  } else if (name === "value" || name === "checked" || name === "indeterminate") {
    const field = /** @type {any} */ (element);
    if (field[name] !== value && value !== undefined) field[name] = value;
  } else if (value === undefined || value === false || value === null) {
    element.removeAttribute(name);
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** @param {Patched} element @param {string} type @param {((event: any) => void) | undefined} handle */
function listen(element, type, handle) {
  element.listeners ??= {};
  const listeners = element.listeners;
  if (!(type in listeners)) element.addEventListener(type, (event) => element.listeners?.[type]?.(event));
  listeners[type] = handle ?? (() => {});
}
