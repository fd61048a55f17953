// Lists all rows of a table, with search, sorting, filters and pages.

import { lastFrame, mainTable, measures, rowName, sinceWords, untouchedNote } from "./data.js";
import { byId, element, tokenElement } from "./dom.js";
import { formatCount, formatNumber, formatPercent } from "./format.js";
import { explainRow } from "./why.js";

/** @import { Report, RowTable } from "./types" */
/** @import { Selection } from "./dom.js" */

const pageSize = 25;

/**
 * A column of the table. Its value is undefined for rows without a known figure.
 * @typedef {object} Column
 * @property {string} key
 * @property {string} name
 * @property {(value: number | undefined) => string} format
 * @property {(row: number) => number | undefined} value
 * @property {boolean} [unknown] true if rows in no frame have moved by an unknown amount
 */

/**
 * Returns the filters of a table: keys and names.
 * @param {Report} report @param {RowTable} table @returns {[string, string][]}
 */
function filtersOf(report, table) {
  const since = sinceWords(report);
  if (table.dense)
    return [["all", "all rows"], ["touched", `rows that were looked up${since}`], ["untouched", `rows never looked up${since}`]];
  return [
    ["all", "all rows"],
    ["touched", `rows with a gradient${since}`],
    ["untouched", `rows that never had a gradient${since}`],
    ["idle", "rows that moved without a gradient"],
    .../** @type {[string, string][]} */ (table.coupled_decay ? []
      : [["momentum", "rows moved by momentum without a gradient"], ["decay", "rows moved by decay without a gradient"]]),
  ];
}

/**
 * Describes the figures of a table.
 * @param {Report} report @param {RowTable} table
 */
function describeTable(report, table) {
  const counted = sinceWords(report) ? ` All figures are counted${sinceWords(report)}.` : "";
  const idle = table.dense ? "" : " In steps without a gradient, momentum and weight decay " +
    `still move a row${table.coupled_decay ? "; here, one figure includes both" : ""}.`;
  const isWhole = lastFrame(table).frame.rows.length === table.rows;
  return `The same figures as a table, at the last frame. Select a row to see why it moved.${counted}${idle} ${isWhole ? "" : untouchedNote(table)}`;
}

/** The rows of a table that match the search and the filter, sorted. */
export class RowList {
  search = "";
  filter = "all";
  sortKey = "moved";
  descending = true;
  /** @type {number[]} */
  found = [];

  /** @param {Report} report @param {RowTable} table */
  constructor(report, table) {
    this.report = report;
    this.table = table;
    this.view = lastFrame(table);
    const { rows = [], momentum = [], decay = [] } = table.idle ?? {};
    const byMomentum = new Map(rows.map((row, i) => [row, momentum[i]]));
    const byDecay = new Map(rows.map((row, i) => [row, decay[i]]));
    const tracked = { format: formatNumber, unknown: table.coupled_decay };
    /** @type {Column[]} */
    const idle = table.dense ? []
      : table.coupled_decay ? [{ ...tracked, key: "momentum", name: "By momentum and decay", value: (row) => byMomentum.get(row) }]
      : [
        { ...tracked, key: "momentum", name: "By momentum", value: (row) => byMomentum.get(row) },
        { ...tracked, key: "decay", name: "By decay", value: (row) => byDecay.get(row) },
      ];
    /** @type {Column[]} */
    this.columns = [
      { key: "id", name: table.tokens ? "Id" : "Row", format: String, value: (row) => row },
      ...measures.map((measure) => ({
        key: measure.key,
        name: measure.name,
        format: measure.format,
        value: (/** @type {number} */ row) => this.view.value(measure, row),
        unknown: (table.dense && ["moved", "norm"].includes(measure.key)) || (table.coupled_decay && measure.key === "moved"),
      })),
      ...idle,
    ];
    this.find();
  }

  /** @param {number} row */
  shrunk(row) {
    return !this.table.dense && !this.table.coupled_decay && !this.view.touched(row) && (this.table.decayed ?? 1) < 1;
  }


  find() {
    const { search, view } = this;
    const isMovedBy = (/** @type {string} */ key, /** @type {number} */ row) =>
      (this.columns.find((one) => one.key === key)?.value(row) ?? 0) > 0;
    const byMomentum = (/** @type {number} */ row) => isMovedBy("momentum", row);
    const byDecay = (/** @type {number} */ row) => isMovedBy("decay", row) || this.shrunk(row);
    /** @type {Record<string, (row: number) => boolean>} */
    const passes = {
      all: () => true,
      touched: (row) => view.touched(row),
      untouched: (row) => !view.touched(row),
      idle: (row) => byMomentum(row) || byDecay(row) || (!!this.table.coupled_decay && !view.touched(row)),
      momentum: byMomentum,
      decay: byDecay,
    };
    const pass = passes[this.filter];
    this.found = [];
    for (let row = 0; row < this.table.rows; ++row)
      if (pass(row) && (search === "" || this.#matches(row))) this.found.push(row);
    this.#sort();
  }

  /** @param {number} row */
  #matches(row) {
    if (String(row) === this.search) return true;
    const names = [rowName(this.report, this.table, row)];
    if (this.table.tokens) names.push(this.report.vocabulary[row] ?? ""); // with plain spaces
    return names.some((name) => name.toLowerCase().includes(this.search));
  }

  /** Sorts the rows. Rows without the figure come last in both directions. */
  #sort() {
    const column = this.columns.find((one) => one.key === this.sortKey) ?? this.columns[0];
    const sign = this.descending ? -1 : 1;
    const values = new Float64Array(this.table.rows);
    for (const row of this.found) values[row] = sign * (column.value(row) ?? sign * Infinity);
    this.found.sort((a, b) => values[a] - values[b] || a - b);
  }
}

/** @param {Report} report @param {Selection} tokens */
export function showRows(report, tokens) {
  const tables = (report.tables ?? []).filter((table) => table.frames.length > 0);
  if (tables.length === 0) return undefined;
  const part = { list: new RowList(report, tables[0]), page: 0, show, filterBy };
  const search = byId("rows-search", HTMLInputElement);
  const filter = byId("rows-filter", HTMLSelectElement);
  const choice = byId("rows-table", HTMLSelectElement);

  function show() {
    const pages = Math.max(Math.ceil(part.list.found.length / pageSize), 1);
    part.page = Math.min(Math.max(part.page, 0), pages - 1);
    drawTable(part.list, part.page, tokens, (key) => {
      part.list.descending = part.list.sortKey === key ? !part.list.descending : key !== "id";
      part.list.sortKey = key;
      findAgain();
      byId("rows-body", HTMLElement).querySelector(`[data-key="${key}"]`)?.querySelector("button")?.focus();
    });
    const count = part.list.found.length;
    byId("rows-count", HTMLElement).textContent = `${formatCount(count)} of ${formatCount(part.list.table.rows)} rows`;
    drawPages(part.page, pages, (page) => {
      part.page = page;
      show();
    });
  }

  function findAgain() {
    part.list.search = search.value.trim().toLowerCase();
    part.list.filter = filter.value;
    part.list.find();
    part.page = 0;
    show();
  }

  /** Filters the rows of the first table. @param {string} key */
  function filterBy(key) {
    choice.value = "0";
    chooseTable();
    search.value = "";
    filter.value = key;
    findAgain();
  }

  function chooseTable() {
    const table = tables[Number(choice.value)];
    part.list = new RowList(report, table);
    byId("rows-says", HTMLElement).textContent = describeTable(report, table);
    const chosen = filter.value;
    const filters = filtersOf(report, table);
    filter.replaceChildren(...filters.map(([key, name]) => element("option", { value: key }, name)));
    if (filters.some(([key]) => key === chosen)) filter.value = chosen;
  }

  tables.forEach(({ name }, i) => choice.append(element("option", { value: i }, name)));
  byId("rows-table-label", HTMLElement).hidden = tables.length < 2;
  choice.addEventListener("change", () => {
    chooseTable();
    findAgain();
  });
  search.addEventListener("input", findAgain);
  filter.addEventListener("change", findAgain);
  tokens.listen((id) => {
    markChosen(part.list, tokens);
    const table = mainTable(report);
    if (table) explainRow(report, table, id);
  });
  chooseTable();
  show();
  return part;
}

/**
 * @param {RowList} list @param {number} page @param {Selection} tokens
 * @param {(key: string) => void} onSort
 */
function drawTable(list, page, tokens, onSort) {
  const isToken = list.table.tokens;
  const head = element("tr");
  list.columns.forEach(({ key, name }) => {
    const button = element("button", { type: "button" }, name);
    button.addEventListener("click", () => onSort(key));
    const order = list.sortKey !== key ? "none" : list.descending ? "descending" : "ascending";
    head.append(element("th", { scope: "col", class: "number", "aria-sort": order, "data-key": key }, button));
    if (key === "id") head.append(element("th", { scope: "col" }, isToken ? "Token" : "Meaning"));
  });
  const body = element("tbody");
  for (const row of list.found.slice(page * pageSize, (page + 1) * pageSize))
    body.append(tableLine(list, row, tokens));
  const caption = element("caption", { class: "hidden" }, `Rows of ${list.table.name}`);
  byId("rows-body", HTMLElement).replaceChildren(caption, element("thead", {}, head), body);
  markChosen(list, tokens);
}

/** @param {RowList} list @param {number} row @param {Selection} tokens */
function tableLine(list, row, tokens) {
  const line = element("tr", { "data-row": row, class: list.view.touched(row) ? "" : "untouched" });
  for (const { key, value, format, unknown } of list.columns) {
    const text = key === "decay" && list.shrunk(row) ? `${formatPercent(list.table.decayed ?? 1)} left`
      : unknown && !list.view.touched(row) ? "not tracked" : format(value(row));
    line.append(element("td", { class: "number" }, text));
    if (key !== "id") continue;
    const name = tokenElement(rowName(list.report, list.table, row));
    const button = element("button", { type: "button", class: "plain", title: "Why it moved" }, name);
    button.addEventListener("click", () => {
      if (list.table === mainTable(list.report)) tokens.choose(row);
      explainRow(list.report, list.table, row); // even if the token is already selected
      byId("why", HTMLElement).scrollIntoView({ block: "nearest" });
    });
    line.append(element("th", { scope: "row" }, button));
  }
  return line;
}

/** Marks the selected row, which is always a row of the main table. @param {RowList} list @param {Selection} tokens */
function markChosen(list, tokens) {
  const isMain = list.table === mainTable(list.report);
  for (const line of byId("rows-body", HTMLElement).querySelectorAll("tbody tr"))
    line.classList.toggle("chosen", isMain && line.getAttribute("data-row") === String(tokens.id));
}

/** @param {number} page @param {number} pages @param {(page: number) => void} onChange */
function drawPages(page, pages, onChange) {
  const place = byId("rows-pages", HTMLElement);
  const focused = document.activeElement?.textContent;
  /** @type {[string, number][]} */
  const targets = [["First", 0], ["Previous", page - 1], ["Next", page + 1], ["Last", pages - 1]];
  const buttons = targets.map(([name, target]) => {
    const button = element("button", { type: "button" }, name);
    if (target < 0 || target >= pages || target === page) button.setAttribute("aria-disabled", "true");
    else button.addEventListener("click", () => onChange(target));
    return button;
  });
  const hadFocus = place.contains(document.activeElement);
  place.replaceChildren(buttons[0], buttons[1], element("span", {}, `page ${formatCount(page + 1)} of ${formatCount(pages)}`), buttons[2], buttons[3]);
  if (hadFocus) buttons.find((button) => button.textContent === focused)?.focus();
}
