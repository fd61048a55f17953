// One step's tape as a picture: ops from top to bottom, and lines from each to those that use it.

import { byId, element, listenToPointer, svgElement } from "./dom.js";
import { formatCount, formatText } from "./format.js";

/** @import { Report, TapeOp } from "./types" */

const lineHeight = 26;
const widestLane = 16;
const widestPicture = 260;

/** @type {Record<TapeOp["gradient"], string>} */
const gradientNames = { none: "no gradient", dense: "dense gradient", rows: "row gradient" };

/**
 * The lane of each op: its line runs down there until the last op that uses it.
 * @param {TapeOp[]} ops
 */
export function assignLanes(ops) {
  const lastUse = ops.map((_, i) => i);
  ops.forEach(({ inputs }, i) => inputs.forEach((input) => (lastUse[input] = i)));
  /** @type {number[]} the op whose line each lane holds */
  const held = [];
  return ops.map((_, i) => {
    const free = held.findIndex((op) => lastUse[op] <= i);
    const lane = free < 0 ? held.length : free;
    held[lane] = i;
    return lane;
  });
}

/** @param {Report} report */
export function showTape({ tape: ops }) {
  if (!ops?.length) return undefined;
  const lanes = assignLanes(ops);
  const count = Math.max(...lanes) + 1;
  const step = Math.min(widestLane, widestPicture / count);
  const x = (/** @type {number} */ i) => (lanes[i] + 0.5) * step + 4;
  const y = (/** @type {number} */ i) => (i + 0.5) * lineHeight;
  const width = count * step + 12;
  const picture = svgElement("svg", { width, height: ops.length * lineHeight, "aria-hidden": "true" });
  /** @type {{from: number, to: number, path: SVGElement}[]} */
  const edges = [];
  ops.forEach(({ inputs }, to) => {
    for (const from of inputs) {
      const turn = Math.max(y(to) - lineHeight, y(from));
      const d = `M${x(from)} ${y(from)}V${turn}C${x(from)} ${y(to)} ${x(to)} ${turn} ${x(to)} ${y(to)}`;
      const path = svgElement("path", { d, class: `edge ${ops[from].gradient}` });
      edges.push({ from, to, path });
      picture.append(path);
    }
  });
  const dots = ops.map(({ gradient }, i) => svgElement("circle", { cx: x(i), cy: y(i), r: 4, class: gradient }));
  picture.append(...dots);
  const lines = ops.map(tapeLine);
  const list = element("ol", {}, ...lines);
  list.style.marginLeft = `${width}px`;
  const place = byId("tape-picture", HTMLElement);
  place.append(/** @type {Node} */ (picture), list);
  showTapeLegend(ops);
  const part = { ops, lanes, edges, current: -1, choose };

  /** @param {number} i */
  function choose(i) {
    if (!ops || i < 0 || i >= ops.length) return;
    lines[part.current]?.classList.remove("chosen");
    part.current = i;
    lines[i].classList.add("chosen");
    const users = edges.filter(({ from }) => from === i).map(({ to }) => to);
    for (const { from, to, path } of edges) path.classList.toggle("chosen", from === i || to === i);
    const names = (/** @type {number[]} */ places) =>
      places.length === 0 ? "nothing" : places.slice(0, 6).map((k) => opName(ops[k])).join(", ") +
        (places.length > 6 ? ` and ${formatCount(places.length - 6)} more` : "");
    byId("tape-reading", HTMLElement).textContent =
      `${opName(ops[i])} [${ops[i].shape.join(", ")}], ${gradientNames[ops[i].gradient]}: ` +
      `made from ${names(ops[i].inputs)}; used by ${names(users)}.`;
  }

  lines.forEach((line, i) => listenToPointer(line, () => choose(i)));
  const box = /** @type {HTMLElement} */ (place.parentElement);
  box.addEventListener("keydown", (event) => {
    const steps = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10 };
    const move = /** @type {Record<string, number>} */ (steps)[event.key];
    if (move === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    choose(Math.min(Math.max(part.current + move, 0), ops.length - 1));
    lines[part.current].scrollIntoView({ block: "nearest" });
  });
  return part;
}

/** @param {TapeOp} op */
function opName({ op, name }) {
  return formatText([op, name === op ? "" : name].filter(Boolean).join(" "));
}

/** @param {TapeOp} op */
function tapeLine({ op, name, shape, gradient }) {
  return element("li", {},
    ...(op ? [element("b", {}, formatText(op))] : []),
    ...(name && name !== op ? [element("span", {}, formatText(name))] : []),
    element("span", { class: "quiet" }, `[${shape.join(", ")}]`),
    element("span", { class: `kind ${gradient}` }, gradientNames[gradient]));
}

/** @param {TapeOp[]} ops */
function showTapeLegend(ops) {
  const legend = byId("tape-legend", HTMLElement);
  const counts = { none: 0, dense: 0, rows: 0 };
  for (const { gradient } of ops) ++counts[gradient];
  legend.textContent = `Of the ${formatCount(ops.length)} ops, ${formatCount(counts.dense)} get dense gradients, ` +
    `${formatCount(counts.rows)} gradients of rows, and ${formatCount(counts.none)} none.`;
}
