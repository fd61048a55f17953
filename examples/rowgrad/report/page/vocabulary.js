// Shows the token table as a map of pixels, and other tables as strips, frame by frame.

import { CellMap } from "./cell_map.js";
import { cssColour, sequentialColour } from "./colour.js";
import { FrameView, kindPlural, lastFrame, mainTable, measureOf, measures, placeOfMost, rowLabel, rowName, sinceWords } from "./data.js";
import { untouchedNote, untouchedWords } from "./data.js";
import { byId, choiceGroup, definitionList, element, tokenElement } from "./dom.js";
import { formatCount, formatPercent, formatPlural, formatTitle } from "./format.js";

/** @import { Report, RowTable } from "./types" */
/** @import { Measure } from "./data.js" */
/** @import { Selection } from "./dom.js" */

const stripCell = 16; // preferred size of a strip's cell in CSS pixels
const mostInStrip = 1024; // maximum of rows; larger tables are squares

/** A table as a map: a frame, a figure, and the figure's scale, which all frames share. */
class TableMap {
  measure = measures[0];
  onShow = () => {};
  #least = 0;
  #most = 1;

  /**
   * @param {HTMLCanvasElement} canvas @param {Report} report @param {RowTable} table
   * @param {(row: number) => void} onPoint
   */
  constructor(canvas, report, table, onPoint) {
    this.table = table;
    this.view = lastFrame(table);
    this.#measureRange();
    const room = Math.floor((canvas.parentElement?.clientWidth ?? 0) / stripCell);
    const isSquare = table === mainTable(report) || table.rows > mostInStrip;
    const columns = isSquare ? Math.ceil(Math.sqrt(table.rows)) : Math.min(table.rows, Math.max(room, 16), 64);
    this.map = new CellMap(canvas, {
      count: table.rows,
      columns,
      colour: (row) => this.colour(row),
      onPoint,
      label: (row) => (table === mainTable(report) ? rowName(report, table, row) : rowLabel(table, row)),
      maxWidth: isSquare ? 688 : 1264, // three pixels for each of 225 columns; the width of the page
      maxCell: isSquare ? 64 : 40,
    });
  }

  /** @param {number} row */
  colour(row) {
    const value = this.view.value(this.measure, row);
    return value === undefined ? cssColour("--untouched") : sequentialColour(this.share(value));
  }

  /** @param {number} value @returns {number} position on the colour scale, from 0 to 1 */
  share(value) {
    if (!this.measure.logarithmic) return value / (this.#most || 1);
    if (value <= 0) return 0;
    const [low, high] = [Math.log(this.#least), Math.log(this.#most)];
    return high > low ? (Math.log(value) - low) / (high - low) : 1;
  }

  get range() {
    return [this.#least, this.#most];
  }

  /** @param {Measure} measure @param {number} frame */
  show(measure, frame) {
    this.measure = measure;
    this.view = new FrameView(this.table, this.table.frames[Math.min(frame, this.table.frames.length - 1)]);
    this.#measureRange();
    this.map.paint();
    this.onShow();
  }

  #measureRange() {
    const last = this.table.frames[this.table.frames.length - 1];
    [this.#least, this.#most] = [Infinity, 0];
    for (let place = 0; place < last.rows.length; ++place) {
      const value = this.measure.of(last, place);
      if (value > 0) this.#least = Math.min(this.#least, value);
      this.#most = Math.max(this.#most, value);
    }
    if (!this.measure.logarithmic || this.#least > this.#most) this.#least = 0;
  }
}

/** @param {Report} report @param {Selection} tokens */
export function showVocabulary(report, tokens) {
  const table = mainTable(report);
  if (!table) return undefined;
  if (!table.tokens) byId("vocabulary-title", HTMLElement).textContent = `The ${kindPlural(table)} as a map`;
  const reading = byId("map-reading", HTMLElement);
  const main = new TableMap(byId("map", HTMLCanvasElement), report, table, (row) => tokens.choose(row));
  const strips = showStrips(report);
  let measure = main.measure;
  let frame = table.frames.length - 1;
  const read = () => {
    if (tokens.id !== undefined) reading.replaceChildren(...describeRow(report, main, tokens.id));
  };
  const showAll = () => {
    for (const one of [main, ...strips]) one.show(measure, frame);
    showLegend(report, main);
    describeMap(report, main);
    read();
  };
  tokens.listen((id) => {
    main.map.mark(id);
    read();
  });
  choiceGroup(byId("measure", HTMLElement), "Colour shows", measures.map(({ key, name }) => [key, name]), (key) => {
    measure = measureOf(key);
    showAll();
  });
  controlFrames(table, (chosen) => {
    frame = chosen;
    showAll();
  });
  showAll();
  return { main, strips };
}

/** @param {RowTable} table @param {(frame: number) => void} onChange */
function controlFrames(table, onChange) {
  const slider = byId("frame", HTMLInputElement);
  const says = byId("frame-says", HTMLElement);
  slider.max = slider.value = String(table.frames.length - 1);
  slider.disabled = table.frames.length < 2;
  const name = () => {
    const frame = Number(slider.value);
    const text = `after step ${formatCount(table.frames[frame].step)}, frame ${frame + 1} of ${table.frames.length}`;
    says.textContent = text;
    slider.setAttribute("aria-valuetext", text);
    return frame;
  };
  slider.addEventListener("input", () => onChange(name()));
  name();
}

/** @param {Report} report @param {TableMap} main */
function describeMap(report, { table, view, measure }) {
  const touched = view.frame.rows.length;
  const have = (table.dense ? "have been looked up" : "have had a gradient") + sinceWords(report);
  byId("map-says", HTMLElement).textContent =
    `Each cell is one of the ${formatCount(table.rows)} rows of ${table.name}, in the order of the ids. ` +
    `After step ${formatCount(view.frame.step)}, ` +
    (touched === table.rows ? `all of them ${have}. `
      : `${formatCount(touched)} (${formatPercent(touched / table.rows)}) ${have}; ` +
        `the other ${formatCount(table.rows - touched)} are sand-coloured. ${untouchedNote(table)} `) +
    `Stronger blue stands for a larger value: ${measure.meaning}. ` +
    "Point at a cell, tap it, or use the arrow keys to identify its row.";
}

/** @param {Report} report @param {TableMap} main */
function showLegend(report, main) {
  const [least, most] = main.range;
  byId("map-legend", HTMLElement).replaceChildren(
    element("span", { class: "legend-line" },
      element("span", {}, main.measure.format(least)), element("span", { class: "ramp" }),
      element("span", {}, main.measure.format(most) + (main.measure.logarithmic ? ", logarithmic" : ""))),
    ...(main.view.frame.rows.length === main.table.rows ? []
      : [element("span", { class: "legend-key" }, element("i", { class: "key untouched" }), ` ${untouchedWords(report, main.table)}`)]));
}

/** @param {Report} report @param {TableMap} main @param {number} row */
function describeRow(report, main, row) {
  const { view, table } = main;
  const title = element("h3", {}, tokenElement(rowName(report, table, row)));
  const id = element("p", { class: "quiet" }, `row ${formatCount(row)} of ${table.name}`);
  if (row >= table.rows) return [title, element("p", {}, "This table has no such row.")];
  if (!view.touched(row))
    return [title, id, element("p", {}, `Up to step ${formatCount(view.frame.step)}: ${untouchedWords(report, table)}. ${untouchedNote(table)}`)];
  return [title, id, definitionList(measures.map((measure) =>
    [measure.name, measure.key === "age" ? formatPlural(view.value(measure, row) ?? 0, "step") : measure.format(view.value(measure, row))])),
  element("p", {}, element("a", { href: "#why" }, "Why it moved"))];
}

/** @param {Report} report */
function showStrips(report) {
  const place = byId("strips", HTMLElement);
  return (report.tables ?? [])
    .filter((table) => table !== mainTable(report) && table.frames.length > 0)
    .map((table) => {
      const canvas = element("canvas", {
        tabindex: 0, role: "application", "aria-roledescription": "map",
        "aria-label": `Strip of the rows of ${table.name}`, "aria-describedby": "map-keys",
      });
      const says = element("p", { class: "reading line", role: "status" });
      const what = formatTitle(kindPlural(table));
      place.append(element("h3", {}, what, element("span", { class: "quiet" }, ` ${table.name}`)),
        element("div", {}, canvas), says);
      const strip = new TableMap(canvas, report, table, read);
      function read() {
        const row = strip.map.marked ?? 0;
        const figures = measures.map((measure) => `${measure.name.toLowerCase()} ${measure.format(strip.view.value(measure, row))}`);
        says.textContent = `${rowName(report, table, row)}: ` +
          (strip.view.touched(row) ? figures.join(", ") : `${untouchedWords(report, table)}. ${untouchedNote(table)}`);
      }
      const { rows, moved } = strip.view.frame;
      strip.map.mark(rows[placeOfMost(moved)] ?? 0); // shows figures from the start
      strip.onShow = read;
      return strip;
    });
}
