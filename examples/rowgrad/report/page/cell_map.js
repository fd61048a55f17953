// Draws a map of coloured cells on a canvas, for tables and attention.

import { cssColour, cssText, drawInTheme, drawWhenResized, inkOn } from "./colour.js";
import { listenToPointer } from "./dom.js";

/** @import { Colour } from "./types" */

/**
 * @typedef {object} CellMapOptions
 * @property {number} count number of cells
 * @property {number} columns
 * @property {(cell: number) => Colour} colour
 * @property {(cell: number) => void} onPoint called with the cell at the pointer or cursor
 * @property {(cell: number) => string} [label] label for cells that are large enough
 * @property {number} [maxWidth] maximum width of the map in CSS pixels
 * @property {number} [maxCell] maximum size of a cell in CSS pixels
 */

const gapFrom = 6; // minimum size of cells with gaps, in CSS pixels
const labelFrom = 24;

export class CellMap {
  /** @type {number | undefined} */
  marked = undefined;
  #pixels = document.createElement("canvas");
  #cell = 1; // size of a cell in pixels of the canvas

  /** @param {HTMLCanvasElement} canvas @param {CellMapOptions} options */
  constructor(canvas, options) {
    this.canvas = canvas;
    this.options = options;
    this.rows = Math.ceil(options.count / options.columns);
    drawInTheme(() => this.paint());
    drawWhenResized(canvas, () => this.draw());
    listenToPointer(canvas, ({ offsetX, offsetY }) => {
      const cell = this.#cellAt(offsetX, offsetY);
      if (cell !== undefined) this.#point(cell);
    });
    canvas.addEventListener("keydown", (event) => this.#onKey(event));
    canvas.addEventListener("focus", () => {
      if (canvas.matches(":focus-visible")) this.#point(this.marked ?? 0);
    });
  }

  /** Reads all colours again and draws. */
  paint() {
    const { count, columns, colour } = this.options;
    this.#pixels.width = columns;
    this.#pixels.height = this.rows;
    const context = /** @type {CanvasRenderingContext2D} */ (this.#pixels.getContext("2d"));
    const image = context.createImageData(columns, this.rows);
    for (let cell = 0; cell < count; ++cell) {
      const [red, green, blue] = colour(cell);
      image.data.set([red, green, blue, 255], 4 * cell);
    }
    context.putImageData(image, 0, 0);
    this.draw();
  }

  /** @param {number | undefined} cell the cell to mark */
  mark(cell) {
    this.marked = cell;
    this.draw();
  }

  draw() {
    const { columns, maxWidth = 640, maxCell = 40 } = this.options;
    const scale = devicePixelRatio;
    const room = Math.min(this.canvas.parentElement?.clientWidth || maxWidth, maxWidth);
    const cell = Math.min((room * scale) / columns, maxCell * scale);
    this.#cell = cell >= 1 ? Math.floor(cell) : cell;
    this.canvas.width = Math.round(columns * this.#cell);
    this.canvas.height = Math.max(Math.round(this.rows * this.#cell), 1);
    this.canvas.style.width = `${this.canvas.width / scale}px`;
    const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    context.imageSmoothingEnabled = this.#cell < 1;
    context.drawImage(this.#pixels, 0, 0, this.canvas.width, this.canvas.height);
    if (this.#cell >= gapFrom * scale) this.#drawGaps(context);
    if (this.#cell >= labelFrom * scale) this.#drawLabels(context);
    if (this.marked !== undefined) this.#drawMark(context, this.marked);
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawGaps(context) {
    context.fillStyle = cssText(cssColour("--surface"));
    for (let column = 1; column < this.options.columns; ++column)
      context.fillRect(column * this.#cell, 0, 1, this.canvas.height);
    for (let row = 1; row < this.rows; ++row)
      context.fillRect(0, row * this.#cell, this.canvas.width, 1);
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawLabels(context) {
    const { count, columns, colour, label } = this.options;
    if (!label) return;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let cell = 0; cell < count; ++cell) {
      context.fillStyle = inkOn(colour(cell));
      const x = ((cell % columns) + 0.5) * this.#cell;
      const y = (Math.floor(cell / columns) + 0.5) * this.#cell;
      // One word per line, smaller if there are several. Labels that do not fit are not drawn.
      const words = label(cell).split(" ");
      const size = Math.round(this.#cell * (words.length > 1 ? 0.28 : 0.38));
      context.font = `${size}px system-ui, sans-serif`;
      if (words.some((word) => context.measureText(word).width > this.#cell - 4)) continue;
      words.forEach((word, i) => context.fillText(word, x, y + (i - (words.length - 1) / 2) * size));
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {number} cell */
  #drawMark(context, cell) {
    const size = this.#cell;
    const x = (cell % this.options.columns) * size;
    const y = Math.floor(cell / this.options.columns) * size;
    const line = 2 * devicePixelRatio;
    const side = size > 4 * line ? -line : line; // large cells have the mark inside
    for (const [name, place] of /** @type {[string, number][]} */ ([["--surface", 1.5], ["--mark", 0.5]])) {
      const out = place * side;
      context.strokeStyle = cssText(cssColour(name));
      context.lineWidth = line;
      context.strokeRect(x - out, y - out, size + 2 * out, size + 2 * out);
    }
  }

  /** @param {number} x @param {number} y in CSS pixels */
  #cellAt(x, y) {
    const size = this.#cell / devicePixelRatio;
    const column = Math.floor(x / size);
    const cell = Math.floor(y / size) * this.options.columns + column;
    const inside = column >= 0 && column < this.options.columns && cell >= 0;
    return inside && cell < this.options.count ? cell : undefined;
  }

  /** @param {number} cell */
  #point(cell) {
    if (cell === this.marked) return;
    this.mark(cell);
    this.options.onPoint(cell);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const { columns, count } = this.options;
    const here = this.marked ?? 0;
    /** @type {Record<string, number>} */
    const targets = {
      ArrowLeft: here - 1,
      ArrowRight: here + 1,
      ArrowUp: here - columns,
      ArrowDown: here + columns,
      PageUp: here - 10 * columns,
      PageDown: here + 10 * columns,
      Home: 0,
      End: count - 1,
    };
    if (!Object.hasOwn(targets, event.key) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const target = targets[event.key];
    if (target >= 0 && target < count) this.#point(target);
  }
}
