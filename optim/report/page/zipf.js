// How often tokens occur, how far their rows moved, and how many rows a step touches.

import { LinkedCharts } from "./charts.js";
import { addOne } from "./curves.js";
import { rankCorrelation, sinceWords, tokenName, tokenTable, untouchedWords } from "./data.js";
import { byId } from "./dom.js";
import { formatCount, formatNumber, formatPercent, formatPlural } from "./format.js";
import { Scatter } from "./scatter.js";

/** @import { Report } from "./types" */
/** @import { Selection } from "./dom.js" */

/**
 * @param {Report} report @param {Selection} tokens
 * @param {LinkedCharts | object | undefined} loss the curves, if there are any
 */
export function showZipf(report, tokens, loss) {
  const table = tokenTable(report);
  if (!table) return undefined;
  const frame = table.frames[table.frames.length - 1];
  if (frame.rows.length === 0) return undefined;
  const places = frame.rows.map((_, place) => place).sort((a, b) => frame.lookups[b] - frame.lookups[a]);
  const lookups = places.map((place) => frame.lookups[place]);
  const moved = places.map((place) => frame.moved[place]);
  const placeOf = new Map(places.map((place, i) => [frame.rows[place], i]));
  const choose = (/** @type {number} */ i) => tokens.choose(frame.rows[places[i]]);
  const ranks = new Scatter(byId("zipf-ranks", HTMLCanvasElement), {
    x: places.map((_, i) => i + 1), y: lookups, logarithmic: true, xName: "rank", yName: "lookups", onPoint: choose,
  });
  const distances = new Scatter(byId("zipf-moved", HTMLCanvasElement), {
    x: lookups, y: moved, logarithmic: true, xName: "lookups", yName: "distance moved", onPoint: choose,
  });
  tokens.listen((id) => {
    const i = placeOf.get(id);
    for (const scatter of [ranks, distances]) scatter.mark(i);
    byId("zipf-reading", HTMLElement).textContent = i === undefined
      ? `${tokenName(report, id)}: ${untouchedWords(report, table)}`
      : `${tokenName(report, id)}: ${formatPlural(lookups[i], "lookup")}, rank ${formatCount(i + 1)}; moved ${formatNumber(moved[i])}`;
  });
  byId("zipf-says", HTMLElement).textContent = describeZipf(lookups, moved, sinceWords(report));
  const rows = report.curves?.rows;
  const charts = loss instanceof LinkedCharts ? loss : undefined;
  byId("rows-by-step", HTMLElement).hidden = !rows || !charts;
  if (rows && charts) {
    const title = `Distinct rows ${table.dense ? "looked up" : "with a gradient"}, by step`;
    byId("rows-by-step-title", HTMLElement).textContent = byId("chart-rows", HTMLElement).dataset.title = title;
    addOne(charts, "chart-rows", "distinct rows", report.curves?.step ?? [], rows, formatCount);
    charts.showCursor(charts.row);
  }
  return { ranks, distances };
}

/** @param {number[]} lookups in decreasing order @param {number[]} moved @param {string} since */
function describeZipf(lookups, moved, since) {
  const all = lookups.reduce((sum, count) => sum + count, 0);
  const few = Math.max(Math.round(lookups.length / 10), 1);
  const share = lookups.slice(0, few).reduce((sum, count) => sum + count, 0) / all;
  const correlation = rankCorrelation(lookups, moved);
  return (
    `A few tokens make most of a text (Zipf’s law): ${formatCount(few)} of the ${formatCount(lookups.length)} tokens ` +
    `have ${formatPercent(share)} of all lookups${since}. Each point is a token; point at one to find it in both charts. ` +
    (Number.isNaN(correlation) ? "" : `${describeCorrelation(correlation)} (rank correlation ${correlation.toFixed(2).replace("-", "−")}).`)
  );
}

/** @param {number} correlation */
function describeCorrelation(correlation) {
  if (correlation > 0.3) return "Rows that are looked up more often have moved farther";
  if (correlation < -0.3) return "Rows that are looked up more often have moved less far";
  return "How far a row moved has little to do with how often it is looked up";
}
