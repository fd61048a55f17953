// Reads the data of the page, and provides functions that several parts share.

import { formatCount, formatNumber, formatPercent, formatText, formatToken } from "./format.js";

/** @import { Report, RowTable, Frame } from "./types" */

const longestTableName = 60;
const longestLabel = 90;
/** @type {["rows", "lookups", "steps", "last", "norm", "moved"]} */
const columns = ["rows", "lookups", "steps", "last", "norm", "moved"];

/** Reads the JSON, which the page contains as gzip in base64. The Response fetches nothing. */
async function unpackData() {
  if (typeof DecompressionStream === "undefined")
    throw new Error("this browser cannot unpack the data; expected Chrome 111, Firefox 113, Safari 16.4 or later");
  try {
    const packed = atob(document.getElementById("data")?.textContent ?? "");
    const bytes = Uint8Array.from(packed, (byte) => byte.charCodeAt(0));
    const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return await new Response(unpacked).json();
  } catch (cause) {
    throw new Error("the data are damaged or incomplete", { cause });
  }
}

/**
 * Completes the frames of a table: rows that a frame does not list are as in the frame before.
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
    throw new Error(`the data format is "${report.format}", expected "rowgrad report 2"`);
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
 * A figure that the page shows for each row.
 * @typedef {object} Measure
 * @property {string} key
 * @property {string} name
 * @property {string} meaning
 * @property {boolean} logarithmic
 * @property {(value: number | undefined) => string} format
 * @property {(frame: Frame, place: number) => number} of
 */

/** @type {Measure[]} the page starts with the first one */
export const measures = [
  { key: "moved", name: "Moved", logarithmic: true, format: formatNumber, of: (frame, i) => frame.moved[i],
    meaning: "the distance of the row from its initial values" },
  { key: "lookups", name: "Lookups", logarithmic: true, format: formatCount, of: (frame, i) => frame.lookups[i],
    meaning: "how often training batches looked the row up" },
  { key: "steps", name: "Steps", logarithmic: true, format: formatCount, of: (frame, i) => frame.steps[i],
    meaning: "the number of steps in which the row had a gradient" },
  { key: "norm", name: "Gradient", logarithmic: true, format: formatNumber, of: (frame, i) => frame.norm[i],
    meaning: "the root of the sum of the row’s squared gradients" },
  { key: "age", name: "Untouched for", logarithmic: false, format: formatCount, of: (frame, i) => frame.step - frame.last[i],
    meaning: "the number of steps since the row’s last gradient" },
];

/** @param {string} key */
export function measureOf(key) {
  return /** @type {Measure} */ (measures.find((measure) => measure.key === key));
}

/** A frame of a table, with the index of each row in the frame; −1 for rows that are not in it. */
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
 * Returns the step from which lookups, gradients and movement are counted; empty for the start of the run.
 * @param {Report} report
 */
export function sinceWords({ run }) {
  return run.first_step > 0 ? ` since step ${formatCount(run.first_step)}` : "";
}

/**
 * Describes rows that are in no frame. With dense gradients, every row has a gradient in each step, so
 * these are the rows that were not looked up.
 * @param {Report} report @param {RowTable} table
 */
export function untouchedWords(report, table) {
  return (table.dense ? "never looked up" : "never had a gradient") + sinceWords(report);
}

/**
 * Describes how rows that are in no frame have moved; empty if they have not.
 * @param {RowTable} table
 */
export function untouchedNote(table) {
  if (table.dense)
    return "All rows have dense gradients, because the table is also the head’s weight. A row is tracked from its " +
      "first lookup; movements of other rows are not shown.";
  if (table.coupled_decay)
    return "Weight decay is part of the gradient here: it also moves rows without a gradient of their own, " +
      "by an amount that is not tracked.";
  return (table.decayed ?? 1) < 1
    ? `Weight decay has shrunk rows without a gradient to ${formatPercent(table.decayed ?? 1)} of their initial values.`
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

/** Returns the table for the map: the token table or, for a model without tokens, the first one. @param {Report} report */
export function mainTable(report) {
  const first = report.vocabulary.length === 0 ? report.tables?.find((table) => table.frames.length > 0) : undefined;
  return tokenTable(report) ?? first;
}

/** Returns the plural of the word for a row. @param {RowTable | undefined} table */
export function kindPlural(table) {
  return `${table?.kind ?? "token"}s`;
}

/** Returns the unit of the run's speed. @param {Report} report */
export function unitPlural(report) {
  return report.run.unit ?? kindPlural(mainTable(report));
}

/** Returns the unit of losses after a space; empty if unknown. @param {Report} report */
export function nats(report) {
  return report.loss_unit ? ` ${formatText(report.loss_unit)}` : "";
}

/** @param {Report} report @param {number} id */
export function tokenName(report, id) {
  return formatToken(report.vocabulary[id]);
}

/**
 * Returns the name of a row.
 * @param {Report} report @param {RowTable} table @param {number} row
 */
export function rowName(report, table, row) {
  if (table.tokens) return tokenName(report, row);
  const label = rowLabel(table, row);
  return label === "" ? `no ${table.kind}` : `${table.kind} ${label}`;
}

/**
 * Returns the name of a row of another table, without the kind; empty if the row has no meaning.
 * @param {RowTable} table @param {number} row
 */
export function rowLabel(table, row) {
  return table.labels?.[row] ?? String(row);
}

// Words are joined with spaces. Bytes, characters and subwords contain their own spaces.
const joinsLeft = /^[,.:;?!)'’”\]]|^--$/;

/**
 * Returns the space between a token and the one before it.
 * @param {Report} report @param {number} id
 */
export function spaceBefore(report, id) {
  return report.words && !joinsLeft.test(report.vocabulary[id] ?? "") ? " " : "";
}

/** Returns the index of the largest number; there may be too many for Math.max(...). @param {number[]} numbers */
export function placeOfMost(numbers) {
  return numbers.reduce((most, number, place) => (number > numbers[most] ? place : most), 0);
}

/** @param {ArrayLike<number>} numbers */
export function mean(numbers) {
  let sum = 0;
  for (let i = 0; i < numbers.length; ++i) sum += numbers[i];
  return sum / numbers.length;
}
