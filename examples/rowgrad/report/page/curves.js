// Draws loss, learning rate, gradient norm, speed and distinct rows by step.

import { LinkedCharts } from "./charts.js";
import { mainTable, nats, unitPlural } from "./data.js";
import { byId, definitionList } from "./dom.js";
import { formatCount, formatNumber, formatTitle } from "./format.js";

/** @import { Numbers, Report } from "./types" */

/**
 * Averages over a centred window, which does not shift bends. The window is narrow at the first value,
 * and is cut at the last one.
 * @param {Numbers} values @param {number} window an odd number
 * @returns {Numbers}
 */
export function smoothed(values, window) {
  if (window === 1) return values;
  const sums = new Float64Array(values.length + 1);
  const counts = new Int32Array(values.length + 1);
  values.forEach((value, i) => {
    sums[i + 1] = sums[i] + (value ?? 0);
    counts[i + 1] = counts[i] + (value === null ? 0 : 1);
  });
  const half = (window - 1) / 2;
  return values.map((value, i) => {
    const first = i - Math.min(half, i);
    const end = Math.min(2 * i - first, values.length - 1) + 1;
    return value === null ? null : (sums[end] - sums[first]) / (counts[end] - counts[first]);
  });
}

/** @param {Report} report */
export function showCurves(report) {
  const curves = report.curves;
  if (!curves?.step.length) return undefined;
  byId("baselines-say", HTMLElement).hidden = !report.baselines || curves.step.length < 2;
  if (curves.step.length < 2) return showOneStep(report);
  if (nats(report) === "") byId("loss-says", HTMLElement).textContent = "Lower is better.";
  const speed = `${unitPlural(report)} per second`;
  byId("speed-title", HTMLElement).textContent = formatTitle(speed);
  byId("chart-speed", HTMLElement).dataset.title = `${formatTitle(speed)} by step`;
  const evaluations = report.evaluations ?? [];
  const evaluated = evaluations.map(({ steps }) => steps);
  const steps = [...new Set([...curves.step, ...(report.norms?.step ?? []), ...evaluated])].sort((a, b) => a - b);
  const charts = new LinkedCharts(steps);
  const loss = addLoss(charts, report, evaluated);
  addOne(charts, "chart-rate", "learning rate", curves.step, curves.learning_rate);
  addOne(charts, "chart-speed", speed, curves.step, curves.speed, formatCount);
  byId("chart-rows", HTMLElement).dataset.title = `${rowsName(report)} by step`;
  byId("rows-by-step", HTMLElement).textContent = rowsName(report);
  addOne(charts, "chart-rows", "distinct rows", curves.step, curves.rows, formatCount);
  if (report.norms?.step.length) {
    const { step, norm, clipped } = report.norms;
    const dots = step.length < 40;
    const isClipped = norm.some((value, i) => value !== clipped[i]);
    const before = { name: "before clipping", colour: "--series-2", values: charts.align(step, norm), dots };
    const after = { name: isClipped ? "after" : "never clipped", colour: "--series-1",
      values: charts.align(step, clipped), dots, width: 2 };
    charts.add("chart-norm", isClipped ? [before, after] : [after]);
  } else leaveOut("chart-norm");
  controlZoom(charts);
  controlSmoothing(charts, loss, curves);
  charts.showCursor(charts.row);
  return charts;
}

/** Returns the title of the curve of rows. @param {Report} report */
function rowsName(report) {
  return `Distinct rows ${mainTable(report)?.dense ? "looked up" : "with a gradient"}`;
}

/** Lists the values of a run of one step, as its curves would be single points. @param {Report} report */
function showOneStep(report) {
  const { curves, norms, baselines } = report;
  for (const part of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".of-curves"))) part.hidden = true;
  /** @type {[string, number | null | undefined, typeof formatNumber?][]} */
  const values = [
    ["Step", curves?.step[0], formatCount], ["Loss", curves?.loss[0]],
    ["Loss if all tokens were equally likely", baselines?.uniform],
    ["Loss if each token were as likely as it is frequent", baselines?.unigram],
    ["Learning rate", curves?.learning_rate?.[0]], ["Gradient norm", norms?.norm[0]],
    [rowsName(report), curves?.rows?.[0], formatCount],
    [formatTitle(`${unitPlural(report)} per second`), curves?.speed?.[0], formatCount],
  ];
  byId("one-step", HTMLElement).append(definitionList(
    values.flatMap(([name, value, format = formatNumber]) => (value === null || value === undefined ? [] : [[name, format(value)]]))));
  return {};
}

/** @param {LinkedCharts} charts @param {Report} report @param {number[]} evaluated */
function addLoss(charts, report, evaluated) {
  const { curves, evaluations = [], baselines } = report;
  const raw = charts.align(curves?.step ?? [], curves?.loss ?? []);
  const validation = charts.align(evaluated, evaluations.map((one) => one.validation_loss));
  const level = (/** @type {number} */ value) => charts.steps.map(() => value);
  /** @type {import("./charts.js").Series[]} */
  const series = [
    { name: "each batch", colour: "--faint-series", values: raw, width: 1, quiet: true },
    { name: "training, smoothed", colour: "--series-1", values: raw, width: 2.5 },
  ];
  if (validation.some((value) => value !== null))
    series.push({ name: "validation", colour: "--series-2", values: validation, width: 2, dots: evaluated.length < 60 });
  if (baselines) {
    series.push(
      { name: "unigram", colour: "--series-3", values: level(baselines.unigram), dashes: [7, 4], quiet: true },
      { name: "uniform", colour: "--muted", values: level(baselines.uniform), dashes: [2, 3], quiet: true },
    );
  }
  return charts.add("chart-loss", series);
}

/**
 * @param {LinkedCharts} charts @param {string} id @param {string} name
 * @param {number[]} at @param {Numbers | undefined} values @param {typeof formatNumber} [format]
 */
function addOne(charts, id, name, at, values, format) {
  if (!values?.some((value) => value)) return leaveOut(id);
  charts.add(id, [{ name, colour: "--series-1", values: charts.align(at, values), width: 1.5, format }],
    { includeZero: true });
}

/** @param {string} id */
function leaveOut(id) {
  /** @type {HTMLElement} */ (byId(id, HTMLElement).parentElement).hidden = true;
}

/** @param {LinkedCharts} charts */
function controlZoom(charts) {
  const actions = {
    "zoom-in": () => charts.zoom(0.5),
    "zoom-out": () => charts.zoom(2),
    earlier: () => charts.move(-0.5),
    later: () => charts.move(0.5),
    "zoom-all": () => charts.showAll(),
  };
  for (const [id, action] of Object.entries(actions)) byId(id, HTMLElement).addEventListener("click", action);
}

/**
 * @param {LinkedCharts} charts @param {ReturnType<LinkedCharts["add"]>} chart
 * @param {NonNullable<Report["curves"]>} curves
 */
function controlSmoothing(charts, chart, curves) {
  const input = byId("smoothing", HTMLInputElement);
  const stride = curves.step.length > 1 ? curves.step[1] - curves.step[0] : 1;
  const smooth = () => {
    const window = 1 + 2 * Math.round(((Number(input.value) / 100) ** 2 * curves.step.length) / 6);
    byId("smoothing-says", HTMLElement).textContent =
      window === 1 ? "none" : `means over ${formatCount(window * stride)} steps`;
    chart.replace("training, smoothed", charts.align(curves.step, smoothed(curves.loss, window)));
    charts.showCursor(charts.row);
  };
  input.addEventListener("input", smooth);
  smooth();
}
