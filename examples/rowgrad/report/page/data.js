// Reads the data of the page, and answers questions about them that several parts have.

import { formatCount, formatNumber, formatPercent, formatText, formatToken } from "./format.js";

/** @import { Report, RowTable, Frame } from "./types" */

const longestTableName = 60;
const longestLabel = 90;
/** @type {["rows", "lookups", "steps", "last", "norm", "moved"]} */
const columns = ["rows", "lookups", "steps", "last", "norm", "moved"];

/** The JSON that the page holds as gzip, in base64. A Response reads the stream; nothing is fetched. */
async function unpackData() {
  if (typeof DecompressionStream === "undefined")
    throw new Error("this browser cannot unpack its data; Chrome 111, Firefox 113, Safari 16.4 and all later ones can");
  try {
    const packed = atob(document.getElementById("data")?.textContent ?? "");
    const bytes = Uint8Array.from(packed, (byte) => byte.charCodeAt(0));
    const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return await new Response(unpacked).json();
  } catch (cause) {
    throw new Error("its data are damaged, perhaps cut short", { cause });
  }
}

/**
 * The frames of a table with all rows: those that a frame does not list are as in the frame before.
 * @param {RowTable} table @returns {Frame[]}
 */
function wholeFrames(table) {
  const places = new Map();
  /** @type {Frame} */
  const whole = { step: 0, rows: [], lookups: [], steps: [], last: [], norm: [], moved: [] };
  return table.frames.map((frame) => {
    frame.rows.forEach((row, i) => {
      const place = places.get(row) ?? places.size;
      places.set(row, place);
      for (const column of columns) whole[column][place] = frame[column][i];
    });
    const copy = { ...whole, step: frame.step };
    for (const column of columns) copy[column] = whole[column].slice();
    return copy;
  });
}

/** @returns {Promise<Report>} */
export async function readReport() {
  /** @type {Report} */
  const report = await unpackData();
  if (report.format !== "rowgrad report 2")
    throw new Error(`the data are "${report.format}"; this page shows "rowgrad report 2"`);
  report.vocabulary ??= [];
  for (const table of report.tables ?? []) {
    table.kind = formatText(table.kind).slice(0, longestTableName);
    table.name = formatText(table.name).slice(0, longestTableName);
    table.labels = table.labels?.map((label) => formatText(label).slice(0, longestLabel));
    table.frames = wholeFrames(table);
  }
  return report;
}

/**
 * A figure that a row of a table has.
 * @typedef {object} Measure
 * @property {string} key
 * @property {string} name
 * @property {string} meaning
 * @property {boolean} logarithmic
 * @property {(value: number | undefined) => string} format
 * @property {(frame: Frame, place: number) => number} of
 */

/** @type {Measure[]} the first one is shown first */
export const measures = [
  { key: "moved", name: "Moved", logarithmic: true, format: formatNumber, of: (frame, i) => frame.moved[i],
    meaning: "how far the row is from where it was at first" },
  { key: "lookups", name: "Lookups", logarithmic: true, format: formatCount, of: (frame, i) => frame.lookups[i],
    meaning: "how often a training batch looked the row up" },
  { key: "steps", name: "Steps", logarithmic: true, format: formatCount, of: (frame, i) => frame.steps[i],
    meaning: "in how many steps the row had a gradient" },
  { key: "norm", name: "Gradient", logarithmic: true, format: formatNumber, of: (frame, i) => frame.norm[i],
    meaning: "root of the sum of squares of the row’s gradients" },
  { key: "age", name: "Untouched for", logarithmic: false, format: formatCount, of: (frame, i) => frame.step - frame.last[i],
    meaning: "how many steps have passed since the row’s last gradient" },
];

/** @param {string} key */
export function measureOf(key) {
  return /** @type {Measure} */ (measures.find((measure) => measure.key === key));
}

/** A table at one time: where in the frame each row is, if it has had a gradient. */
export class FrameView {
  /** @param {RowTable} table @param {Frame} frame */
  constructor(table, frame) {
    this.frame = frame;
    this.places = new Int32Array(table.rows).fill(-1);
    frame.rows.forEach((row, place) => (this.places[row] = place));
  }

  /** @param {number} row */
  touched(row) {
    return this.places[row] >= 0;
  }

  /** @param {Measure} measure @param {number} row */
  value(measure, row) {
    const place = this.places[row];
    return place < 0 ? undefined : measure.of(this.frame, place);
  }
}

/**
 * From when lookups, gradients and movement are counted, where that is not the beginning.
 * @param {Report} report
 */
export function sinceWords({ run }) {
  return run.first_step > 0 ? ` since step ${formatCount(run.first_step)}` : "";
}

/**
 * What is said of rows that are in no frame. Where a table also has dense gradients, every row has one
 * in each step, and what can be told apart is which rows were looked up.
 * @param {Report} report @param {RowTable} table
 */
export function untouchedWords(report, table) {
  return (table.dense ? "never looked up" : "never had a gradient") + sinceWords(report);
}

/**
 * How rows that are in no frame have moved all the same; empty if they have not.
 * @param {RowTable} table
 */
export function untouchedNote(table) {
  if (table.dense)
    return "All rows have dense gradients, as the table is the head’s weight too, but each is followed from its " +
      "first lookup; how far one has moved that was not looked up is not shown here.";
  if (table.coupled_decay)
    return "Weight decay is a part of the gradient here: it moves rows without one of their own too, " +
      "by an amount that is not followed.";
  return (table.decayed ?? 1) < 1
    ? `Weight decay has shrunk rows without one to ${formatPercent(table.decayed ?? 1)} of what they were.`
    : "";
}

/** @param {RowTable} table */
export function lastFrame(table) {
  return new FrameView(table, table.frames[table.frames.length - 1]);
}

/** @param {Report} report */
export function tokenTable(report) {
  return report.tables?.find((table) => table.tokens && table.frames.length > 0);
}

/** The table that has a map: that of tokens or, of a model without any, the first one. @param {Report} report */
export function mainTable(report) {
  const first = report.vocabulary.length === 0 ? report.tables?.find((table) => table.frames.length > 0) : undefined;
  return tokenTable(report) ?? first;
}

/** Several of what the rows of a table stand for. @param {RowTable | undefined} table */
export function kindPlural(table) {
  return `${table?.kind ?? "token"}s`;
}

/** What the speed of a run is counted in. @param {Report} report */
export function unitPlural(report) {
  return report.run.unit ?? kindPlural(mainTable(report));
}

/** What losses are measured in, where that is known. @param {Report} report */
export function nats(report) {
  return report.loss_unit ? ` ${formatText(report.loss_unit)}` : "";
}

/** @param {Report} report @param {number} id */
export function tokenName(report, id) {
  return formatToken(report.vocabulary[id]);
}

/**
 * What a row of a table stands for.
 * @param {Report} report @param {RowTable} table @param {number} row
 */
export function rowName(report, table, row) {
  if (table.tokens) return tokenName(report, row);
  const label = rowLabel(table, row);
  return label === "" ? `no ${table.kind}` : `${table.kind} ${label}`;
}

/**
 * The same without the kind, where the table is not one of tokens; empty if the row stands for nothing.
 * @param {RowTable} table @param {number} row
 */
export function rowLabel(table, row) {
  return table.labels?.[row] ?? String(row);
}

// Words stand apart; bytes, characters and pieces of words bring their own spaces.
const joinsLeft = /^[,.:;?!)'’”\]]|^--$/;

/**
 * What stands between a token and the one before it.
 * @param {Report} report @param {number} id
 */
export function spaceBefore(report, id) {
  return report.words && !joinsLeft.test(report.vocabulary[id] ?? "") ? " " : "";
}

/** The place of the largest; they may be too many for Math.max(...). @param {number[]} numbers */
export function placeOfMost(numbers) {
  return numbers.reduce((most, number, place) => (number > numbers[most] ? place : most), 0);
}

/** @param {ArrayLike<number>} numbers */
export function mean(numbers) {
  let sum = 0;
  for (let i = 0; i < numbers.length; ++i) sum += numbers[i];
  return sum / numbers.length;
}
