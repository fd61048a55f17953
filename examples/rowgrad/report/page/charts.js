// Draws curves by step in charts that share their cursor and zoom.

import { cssColour, cssText, redrawInTheme } from "./colour.js";
import { byId, element, listenToPointer } from "./dom.js";
import { formatCount, formatNumber, formatTick } from "./format.js";

/**
 * @typedef {object} Series
 * @property {string} name
 * @property {string} colour name of a colour of the style sheet
 * @property {(number | null)[]} values one for each of the charts' steps
 * @property {number} [width]
 * @property {number[]} [dashes]
 * @property {boolean} [dots] true for few values with gaps between them
 * @property {boolean} [quiet] true if not read out
 * @property {typeof formatNumber} [format]
 */

/** A chart with its data and the elements that show the values at the cursor. */
class StepChart {
  /** @param {HTMLElement} place @param {number[]} steps @param {Series[]} series @param {object} options */
  constructor(place, steps, series, options) {
    this.steps = steps;
    this.series = series;
    // Sparse values have space for the step of an earlier value, so that nothing moves with the cursor.
    this.values = series.map(({ values }) =>
      element("b", { class: 2 * values.filter((value) => value !== null).length < values.length ? "sparse" : "" }));
    const legend = element("ul", { class: "legend" });
    series.forEach(({ name, colour, dashes }, i) => {
      const line = element("i", { class: dashes ? "swatch dashed" : "swatch" });
      line.style.borderColor = `var(${colour})`;
      legend.append(element("li", {}, line, ` ${name} `, this.values[i]));
    });
    this.box = element("div", { class: "chart-box" });
    this.cursor = element("div", { class: "chart-cursor" });
    place.append(legend, this.box);
    this.dygraph = new Dygraph(this.box, this.rows(), {
      labels: ["step", ...series.map(({ name }) => name)],
      series: Object.fromEntries(series.map(({ name, width = 1.5, dashes, dots = false }) => [
        name, { strokeWidth: width, strokePattern: dashes, drawPoints: dots, pointSize: 3 },
      ])),
      connectSeparatedPoints: true,
      legend: "never",
      axes: {
        x: { axisLabelFormatter: formatCount, drawGrid: false },
        y: { axisLabelFormatter: formatTick },
      },
      axisLabelFontSize: 12,
      rightGap: 12,
      ...this.colours(),
      ...options,
    });
    this.box.append(this.cursor);
  }

  rows() {
    return this.steps.map((step, i) => [step, ...this.series.map(({ values }) => values[i])]);
  }

  /** @param {string} name @param {(number | null)[]} values */
  replace(name, values) {
    const found = this.series.find((one) => one.name === name);
    if (!found) return;
    found.values = values;
    this.dygraph.updateOptions({ file: this.rows() });
  }

  colours() {
    const line = cssText(cssColour("--line"));
    return {
      colors: this.series.map(({ colour }) => cssText(cssColour(colour))),
      axisLineColor: line,
      gridLineColor: line,
    };
  }

  /** @param {number} row */
  showCursor(row) {
    this.dygraph.setSelection(row);
    const area = this.dygraph.getArea();
    const x = this.dygraph.toDomXCoord(this.steps[row]);
    this.cursor.hidden = x < area.x || x > area.x + area.w;
    this.cursor.style.cssText = `left: ${x}px; top: ${area.y}px; height: ${area.h}px`;
    this.series.forEach((one, i) => (this.values[i].textContent = this.valueAt(one, row)));
  }

  /** @param {number} row */
  describe(row) {
    return this.series
      .filter(({ quiet }) => !quiet)
      .map((one) => `${one.name} ${this.valueAt(one, row)}`)
      .join(", ");
  }

  /**
   * Returns the value at a step, or the last value before it with its step.
   * @param {Series} series @param {number} row
   */
  valueAt({ values, format = formatNumber }, row) {
    let found = row;
    while (found > 0 && values[found] === null) --found;
    const isEarlier = found < row && values[found] !== null;
    return format(values[found]) + (isEarlier ? ` at step ${formatCount(this.steps[found])}` : "");
  }
}

export class LinkedCharts {
  /** @type {StepChart[]} */
  charts = [];
  row = 0;
  #following = false; // true while one chart updates the others

  /** @param {number[]} steps in increasing order; all charts have one value for each */
  constructor(steps) {
    this.steps = steps;
    this.row = steps.length - 1;
  }

  /**
   * Spreads values of some steps over all steps.
   * @param {number[]} at @param {(number | null)[]} values
   */
  align(at, values) {
    const byStep = new Map(at.map((step, i) => [step, values[i]]));
    return this.steps.map((step) => byStep.get(step) ?? null);
  }

  /** @param {string} id of the chart's place @param {Series[]} series @param {object} [options] of dygraphs */
  add(id, series, options = {}) {
    const place = byId(id, HTMLElement);
    const chart = new StepChart(place, this.steps, series, {
      interactionModel: { // touches are handled here, because dygraphs would block scrolling
        ...Dygraph.defaultInteractionModel,
        touchstart: () => {},
        touchmove: () => {},
        touchend: () => {},
      },
      highlightCallback: (/** @type {Event} */ _event, /** @type {number} */ _x, /** @type {unknown} */ _points,
        /** @type {number} */ row) => this.showCursor(row),
      drawCallback: (/** @type {Dygraph} */ dygraph, /** @type {boolean} */ isFirst) => {
        if (!isFirst) this.#follow(dygraph);
      },
      ...options,
    });
    const { box } = chart;
    for (const [name, value] of Object.entries({
      tabindex: "0", role: "application", "aria-roledescription": "chart",
      "aria-label": `${place.dataset.title}. At the end: ${chart.describe(this.row)}.`,
      "aria-describedby": "chart-keys",
    })) box.setAttribute(name, value);
    box.addEventListener("keydown", (event) => this.#onKey(event, chart));
    this.#followFingers(chart);
    this.charts.push(chart);
    redrawInTheme(() => {
      chart.dygraph.resize(); // for narrower paper
      chart.dygraph.updateOptions(chart.colours());
      chart.showCursor(this.row);
    });
    chart.showCursor(this.row);
    return chart;
  }

  /** @param {number} row */
  showCursor(row) {
    this.row = row;
    for (const chart of this.charts) chart.showCursor(row);
    byId("cursor-step", HTMLElement).textContent = formatCount(this.steps[row]);
  }

  /** @returns {[number, number]} the first and the last visible step */
  range() {
    return this.charts[0].dygraph.xAxisRange();
  }

  /** @param {number} first @param {number} last */
  show(first, last) {
    const least = this.steps[0];
    const most = this.steps[this.steps.length - 1];
    const size = Math.min(Math.max(last - first, (most - least) / 200), most - least);
    const begin = Math.min(Math.max(first, least), most - size);
    this.charts[0]?.dygraph.updateOptions({ dateWindow: [begin, begin + size] });
  }

  /** @param {number} factor of the visible range, around the cursor if it is visible */
  zoom(factor) {
    const [first, last] = this.range();
    const cursor = this.steps[this.row];
    const middle = cursor > first && cursor < last ? cursor : (first + last) / 2;
    this.show(middle - (middle - first) * factor, middle + (last - middle) * factor);
  }

  /** @param {number} shares of the visible range, to the right */
  move(shares) {
    const [first, last] = this.range();
    this.show(first + shares * (last - first), last + shares * (last - first));
  }

  showAll() {
    this.show(-Infinity, Infinity);
  }

  /** @param {Dygraph} leader */
  #follow(leader) {
    if (this.#following) return;
    this.#following = true;
    const dateWindow = leader.xAxisRange();
    for (const { dygraph } of this.charts)
      if (dygraph.xAxisRange().some((end, i) => end !== dateWindow[i])) dygraph.updateOptions({ dateWindow });
    for (const chart of this.charts) chart.showCursor(this.row);
    this.#following = false;
  }

  /** @param {StepChart} chart @param {number} x in CSS pixels of the chart */
  #moveTo(chart, x) {
    const step = chart.dygraph.toDataXCoord(x);
    const after = this.steps.findIndex((one) => one >= step);
    this.showCursor(after < 0 ? this.steps.length - 1 : after);
  }

  /**
   * One finger moves the cursor. Two fingers zoom, and the steps under them stay there.
   * @param {StepChart} chart
   */
  #followFingers(chart) {
    /** @type {Map<number, number>} position of each finger on the chart */
    const fingers = new Map();
    /** @type {[number, number]} the steps under two fingers */
    let held = [0, 0];
    const onChart = (/** @type {PointerEvent} */ event) => event.clientX - chart.box.getBoundingClientRect().left;
    const ends = () => [Math.min(...fingers.values()), Math.max(...fingers.values())];
    listenToPointer(chart.box, (event) => {
      if (event.pointerType === "touch" && fingers.size < 2) this.#moveTo(chart, onChart(event));
    });
    chart.box.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "touch") return;
      fingers.set(event.pointerId, onChart(event));
      const [left, right] = ends();
      held = [chart.dygraph.toDataXCoord(left), chart.dygraph.toDataXCoord(right)];
    });
    chart.box.addEventListener("pointermove", (event) => {
      if (!fingers.has(event.pointerId)) return;
      fingers.set(event.pointerId, onChart(event));
      if (fingers.size < 2) return;
      const [left, right] = ends();
      const { x, w } = chart.dygraph.getArea();
      const stepsPerPixel = (held[1] - held[0]) / Math.max(right - left, 20);
      const first = held[0] - (left - x) * stepsPerPixel;
      this.show(first, first + w * stepsPerPixel);
    });
    for (const end of /** @type {const} */ (["pointerup", "pointercancel"]))
      chart.box.addEventListener(end, ({ pointerId }) => fingers.delete(pointerId));
  }

  /** @param {KeyboardEvent} event @param {StepChart} chart */
  #onKey(event, chart) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const far = event.shiftKey ? 10 : 1;
    const last = this.steps.length - 1;
    /** @type {Record<string, () => void>} */
    const actions = {
      ArrowLeft: () => this.showCursor(Math.max(this.row - far, 0)),
      ArrowRight: () => this.showCursor(Math.min(this.row + far, last)),
      Home: () => this.showCursor(0),
      End: () => this.showCursor(last),
      "+": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      0: () => this.showAll(),
    };
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
    byId("chart-says", HTMLElement).textContent =
      `Step ${formatCount(this.steps[this.row])}: ${chart.describe(this.row)}`;
  }
}
