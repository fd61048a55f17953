// Functions to find and create elements. Text only becomes text nodes and attributes.

/**
 * Returns the element of the page's frame with this id.
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} type
 * @returns {T}
 */
export function byId(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`the page has no ${type.name} "${id}"`);
  return found;
}

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} name
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 */
export function svgElement(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/**
 * Creates an element for tokens, isolated from the direction of the text around it.
 * @param {string} name
 */
export function tokenElement(name) {
  return element("bdi", { class: "token" }, name);
}

/**
 * Creates a list of names and values.
 * @param {[string, string | Node][]} entries
 */
export function definitionList(entries) {
  const list = element("dl");
  for (const [name, value] of entries)
    list.append(element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  return list;
}

/**
 * Creates a group of radio buttons.
 * @template {string} T
 * @param {HTMLElement} place
 * @param {string} title
 * @param {[T, string][]} choices values and their names; the first one is selected
 * @param {(value: T) => void} onChange
 */
export function choiceGroup(place, title, choices, onChange) {
  const group = element("fieldset", { class: "choices" }, element("legend", {}, title));
  choices.forEach(([value, name], i) => {
    const input = element("input", { type: "radio", name: `${place.id}-choice`, value });
    input.checked = i === 0;
    input.addEventListener("change", () => onChange(value));
    group.append(element("label", {}, input, element("span", {}, name)));
  });
  place.replaceChildren(group);
}

/**
 * Reports mouse moves, taps and horizontal swipes on an element. Vertical swipes scroll the page
 * (touch-action).
 * @param {HTMLElement} place @param {(event: PointerEvent) => void} onPoint
 */
export function listenToPointer(place, onPoint) {
  /** @type {PointerEvent | undefined} */
  let finger; // until its direction is known
  place.addEventListener("pointerdown", (event) => (finger = event.pointerType === "touch" ? event : undefined));
  place.addEventListener("pointermove", (event) => {
    // The first move may start a scroll.
    const isUpOrDown = (/** @type {PointerEvent} */ { clientX, clientY }) =>
      Math.abs(event.clientY - clientY) > Math.abs(event.clientX - clientX);
    if (finger?.pointerId === event.pointerId && isUpOrDown(finger)) return;
    finger = undefined;
    onPoint(event);
  });
  place.addEventListener("click", (event) => onPoint(/** @type {PointerEvent} */ (event)));
}

/** The selected row. Listeners are called when it changes. */
export class Selection {
  /** @type {number | undefined} */
  id = undefined;
  /** @type {((id: number) => void)[]} */
  #listeners = [];

  /** @param {(id: number) => void} listener */
  listen(listener) {
    this.#listeners.push(listener);
  }

  /** @param {number} id */
  choose(id) {
    if (id === this.id) return;
    this.id = id;
    for (const listener of this.#listeners) listener(id);
  }
}
