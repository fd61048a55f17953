// Explains why a row moved: the steps that moved it farthest, and the text that looked it up in them.

import { lastFrame, measureOf, rowName, sinceWords, spaceBefore, untouchedNote, untouchedWords } from "./data.js";
import { byId, element, tokenElement } from "./dom.js";
import { formatCount, formatNumber, formatPercent, formatPlural, formatText } from "./format.js";

/** @import { Report, RowTable, Reason } from "./types" */

/** @param {Report} report @param {RowTable} table @param {number} row */
export function explainRow(report, table, row) {
  const title = element("h3", {}, "Why ", tokenElement(rowName(report, table, row)), " moved");
  byId("why", HTMLElement).replaceChildren(title, ...reasonsFor(report, table, row));
}

/** @param {Report} report @param {RowTable} table @param {number} row */
function reasonsFor(report, table, row) {
  const view = lastFrame(table);
  if (row >= table.rows) return [element("p", {}, "This table has no such row.")];
  if (!view.touched(row)) return [element("p", {}, `Up to the last frame: ${untouchedWords(report, table)}. ${untouchedNote(table)}`)];
  const place = table.reasons?.rows.indexOf(row) ?? -1;
  if (!table.reasons || place < 0)
    return [element("p", {}, "Steps are only recorded for the rows that moved farthest.")];
  const path = table.reasons.path[place];
  const steps = table.reasons.steps[place];
  return [
    element("p", {}, summaryOf(report, table, row, path)),
    element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "The steps that moved it farthest" },
      stepsTable(report, steps, path)),
    ...(/^rowgrad train$/.test(report.run.program ?? "")
      ? [element("p", { class: "quiet" }, "To list all of its steps with their exact shares: ",
        element("code", {}, `rowgrad rows CHECKPOINT --explain ${table.ids?.[row] ?? row}${table.tokens ? "" : ` --table ${table.name.split(":")[0]}`}`))]
      : []),
  ];
}

/** @param {Report} report @param {RowTable} table @param {number} row @param {number} path */
function summaryOf(report, table, row, path) {
  const view = lastFrame(table);
  const figure = (/** @type {string} */ key) => view.value(measureOf(key), row) ?? 0;
  const idle = table.idle?.rows.indexOf(row) ?? -1;
  const momentum = table.idle?.momentum[idle] ?? 0;
  const decay = table.idle?.decay[idle] ?? 0;
  const others = table.coupled_decay
    ? (momentum > 0 ? [`momentum and weight decay ${formatNumber(momentum)}`] : [])
    : [...(momentum > 0 ? [`momentum ${formatNumber(momentum)}`] : []), ...(decay > 0 ? [`weight decay ${formatNumber(decay)}`] : [])];
  return `It is ${formatNumber(figure("moved"))} from its start. ` +
    `${formatPlural(figure("steps"), "step")} ${table.dense ? "that looked it up" : "with a gradient"}${sinceWords(report)} moved it by ${formatNumber(path)} in total` +
    `${others.length > 0 ? `; in other steps: ${others.join(" and ")}` : ""}. ` +
    "The steps that moved it farthest:";
}

/** @param {Report} report @param {Reason[]} steps @param {number} path */
function stepsTable(report, steps, path) {
  const hasText = steps.some(({ text }) => text !== undefined);
  const names = ["Step", "Lookups", "Gradient", "Moved", "Share"];
  const head = element("tr", {}, ...names.map((name) => element("th", { scope: "col", class: "number" }, name)),
    ...(hasText ? [element("th", { scope: "col" }, "Text that looked it up")] : []));
  const body = steps.map((reason) => {
    const figures = [formatCount(reason.step), formatCount(reason.lookups), formatNumber(reason.norm),
      formatNumber(reason.moved), formatPercent(reason.moved / (path || 1))];
    return element("tr", {}, ...figures.map((figure) => element("td", { class: "number" }, figure)),
      ...(hasText ? [element("td", { class: "looked-up" }, ...lookupText(report, reason))] : []));
  });
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
}

/** Returns the tokens around a lookup, with the row's own token marked. @param {Report} report @param {Reason} reason */
function lookupText(report, { text = [], place }) {
  return text.flatMap((id, i) => {
    const shown = formatText(report.vocabulary[id] ?? "�").replace(/\n/g, "⏎");
    return [i > 0 ? spaceBefore(report, id) : "", i === place ? element("mark", {}, shown) : shown];
  });
}
