// Draws points and axes on a canvas, and reports the point nearest to the pointer.

import { cssColour, cssText, drawInTheme, drawWhenResized } from "./colour.js";
import { listenToPointer } from "./dom.js";
import { formatTick } from "./format.js";

/**
 * @typedef {object} ScatterOptions
 * @property {number[]} x
 * @property {number[]} y
 * @property {string} xName
 * @property {string} yName
 * @property {(point: number) => void} onPoint called with the point at the pointer or cursor
 * @property {(point: number) => string} label label of a point; the first points get one if it hides nothing
 */

const margin = { left: 52, right: 24, top: 24, bottom: 40 };
const reach = 24; // maximum distance from the pointer in CSS pixels
const labelsTried = 400;
const plotHeight = 420; // CSS pixels

/** An axis: maps numbers to positions, and finds round numbers for ticks. */
class ScatterAxis {
  /** @param {number[]} numbers */
  constructor(numbers) {
    let [least, most] = [Infinity, -Infinity];
    for (const number of numbers) {
      if (!Number.isFinite(number)) continue;
      least = Math.min(least, number);
      most = Math.max(most, number);
    }
    if (least > most) [least, most] = [0, 1];
    const room = (most - least || 1) * 0.03;
    this.least = least - room;
    this.most = most + room;
  }

  /** @param {number} number @returns its position between 0 and 1 */
  share(number) {
    return (number - this.least) / (this.most - this.least);
  }

  ticks() {
    const atLeast = (this.most - this.least) / 5;
    const power = 10 ** Math.floor(Math.log10(atLeast));
    const step = power * ([1, 2, 5].find((k) => k * power >= atLeast) ?? 10);
    const result = [];
    for (let k = Math.ceil(this.least / step); k * step <= this.most; ++k) result.push(k * step);
    return result;
  }
}

export class Scatter {
  /** @type {number | undefined} */
  marked = undefined;
  /** @type {[left: number, right: number, middle: number][]} where labels are drawn, in CSS pixels */
  labels = [];
  #width = 0;
  #height = plotHeight;

  /** @param {HTMLCanvasElement} canvas @param {ScatterOptions} options */
  constructor(canvas, options) {
    this.canvas = canvas;
    this.options = options;
    this.xAxis = new ScatterAxis(options.x);
    this.yAxis = new ScatterAxis(options.y);
    const places = options.x.map((x, i) => [this.xAxis.share(x), 1 - this.yAxis.share(options.y[i])]);
    this.places = places;
    this.drawn = places.flatMap(([x, y], i) => (Number.isFinite(x + y) ? [i] : []));
    this.order = [...this.drawn].sort((a, b) => places[a][0] - places[b][0]);
    drawInTheme(() => this.draw());
    drawWhenResized(canvas, () => this.draw());
    listenToPointer(canvas, ({ offsetX, offsetY }) => this.#pointNear(offsetX, offsetY));
    canvas.addEventListener("keydown", (event) => this.#onKey(event));
    canvas.addEventListener("focus", () => {
      if (canvas.matches(":focus-visible")) this.#point(this.marked ?? this.order[0]);
    });
  }

  /** @param {number | undefined} point */
  mark(point) {
    this.marked = point;
    this.draw();
  }

  /** @param {number} point @returns {[number, number]} in CSS pixels */
  pixel(point) {
    const [x, y] = this.places[point];
    return [
      margin.left + x * (this.#width - margin.left - margin.right),
      margin.top + y * (this.#height - margin.top - margin.bottom),
    ];
  }

  draw() {
    this.#width = this.canvas.parentElement?.clientWidth || 320;
    this.canvas.width = Math.round(this.#width * devicePixelRatio);
    this.canvas.height = Math.round(this.#height * devicePixelRatio);
    this.canvas.style.width = `${this.#width}px`;
    const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    context.scale(devicePixelRatio, devicePixelRatio);
    context.font = "12px system-ui, sans-serif";
    this.#drawAxes(context);
    context.fillStyle = cssText(cssColour("--series-1"), this.drawn.length > 3000 ? 0.4 : 0.65);
    for (const point of this.drawn) {
      const [x, y] = this.pixel(point);
      context.fillRect(x - 1.5, y - 1.5, 3, 3);
    }
    this.#drawLabels(context);
    if (this.marked !== undefined) this.#drawMark(context, this.marked);
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawAxes(context) {
    const ink = cssText(cssColour("--muted"));
    context.strokeStyle = cssText(cssColour("--line"));
    context.lineWidth = 1;
    context.fillStyle = ink;
    const bottom = this.#height - margin.bottom;
    const right = this.#width - margin.right;
    context.beginPath();
    context.textAlign = "center";
    for (const tick of this.xAxis.ticks()) {
      const x = Math.round(margin.left + this.xAxis.share(tick) * (right - margin.left)) + 0.5;
      context.moveTo(x, margin.top);
      context.lineTo(x, bottom);
      context.fillText(formatTick(tick), x, bottom + 16);
    }
    context.textAlign = "right";
    for (const tick of this.yAxis.ticks()) {
      const y = Math.round(bottom - this.yAxis.share(tick) * (bottom - margin.top)) + 0.5;
      context.moveTo(margin.left, y);
      context.lineTo(right, y);
      context.fillText(formatTick(tick), margin.left - 6, y + 4);
    }
    context.stroke();
    context.fillText(`${this.options.xName} →`, right, bottom + 33);
    context.textAlign = "left";
    context.fillText(`↑ ${this.options.yName}`, 4, 12);
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawLabels(context) {
    const { label } = this.options;
    context.fillStyle = cssText(cssColour("--ink"));
    context.textAlign = "left";
    const pixels = this.drawn.map((point) => this.pixel(point));
    this.labels = [];
    for (const point of this.drawn.slice(0, labelsTried)) {
      const [x, y] = this.pixel(point);
      const text = label(point);
      const end = x + 6 + context.measureText(text).width;
      const isFree = this.labels.every(([left, right, line]) => end < left || x > right || Math.abs(y - line) > 14) &&
        !pixels.some(([px, py]) => px > x + 3 && px < end && Math.abs(py - y) < 7);
      if (!isFree || end > this.#width) continue;
      this.labels.push([x, end, y]);
      context.fillText(text, x + 4, y + 4);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {number} point */
  #drawMark(context, point) {
    const [x, y] = this.pixel(point);
    if (!Number.isFinite(x + y)) return;
    context.beginPath();
    context.arc(x, y, 6, 0, 2 * Math.PI);
    context.fillStyle = cssText(cssColour("--mark"), 0.35);
    context.fill();
    context.strokeStyle = cssText(cssColour("--mark"));
    context.lineWidth = 2;
    context.stroke();
  }

  /** @param {number | undefined} point */
  #point(point) {
    if (point === undefined || point === this.marked) return;
    this.mark(point);
    this.options.onPoint(point);
  }

  /** @param {number} x @param {number} y in CSS pixels */
  #pointNear(x, y) {
    let nearest;
    let least = reach * reach;
    for (const point of this.drawn) {
      const [px, py] = this.pixel(point);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) [nearest, least] = [point, distance];
    }
    this.#point(nearest);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const here = this.marked === undefined ? 0 : this.order.indexOf(this.marked);
    /** @type {Record<string, number>} */
    const targets = {
      ArrowLeft: here - 1,
      ArrowRight: here + 1,
      PageUp: Math.max(here - 20, 0),
      PageDown: Math.min(here + 20, this.order.length - 1),
      Home: 0,
      End: this.order.length - 1,
    };
    if (!Object.hasOwn(targets, event.key) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    this.#point(this.order[targets[event.key]]);
  }
}
