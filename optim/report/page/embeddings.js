// The rows of the tables as directions: neighbours, a plane of most variance, and positions.

import { CellMap } from "./cell_map.js";
import { divergingColour } from "./colour.js";
import { tokenName } from "./data.js";
import { byId, element, tokenElement } from "./dom.js";
import { formatCount, formatPercent } from "./format.js";
import { Scatter } from "./scatter.js";

/** @import { Embeddings, Report } from "./types" */
/** @import { Selection } from "./dom.js" */

/** @param {Report} report @param {Selection} tokens */
export function showEmbeddings(report, tokens) {
  if (!report.embeddings && !report.positions) return undefined;
  return {
    projection: showProjection(report, report.embeddings, tokens),
    similarity: showPositions(report.positions),
  };
}

/** @param {Report} report @param {Embeddings | undefined} embeddings @param {Selection} tokens */
function showProjection(report, embeddings, tokens) {
  byId("projection-part", HTMLElement).hidden = !embeddings;
  if (!embeddings) return undefined;
  const { ids, x, y, variance } = embeddings;
  const scatter = new Scatter(byId("projection", HTMLCanvasElement), {
    x, y, logarithmic: false, height: 420,
    xName: `first direction, ${formatPercent(variance[0])}`,
    yName: `second direction, ${formatPercent(variance[1])} of the variance`,
    label: (i) => tokenName(report, ids[i]),
    onPoint: (i) => tokens.choose(ids[i]),
  });
  byId("projection-says", HTMLElement).textContent =
    `${ids.length === report.vocabulary.length ? "All" : "The"} ${formatCount(ids.length)} tokens` +
    `${ids.length === report.vocabulary.length ? "" : " with most lookups"}, seen from where they spread most ` +
    "(principal components). Point at one for its nearest neighbours by cosine.";
  const places = new Map(ids.map((id, i) => [id, i]));
  const showNeighbours = (/** @type {number} */ id) => {
    const i = places.get(id);
    scatter.mark(i);
    listNeighbours(report, embeddings, i, id, tokens);
  };
  tokens.listen(showNeighbours);
  searchByName(report, ids, tokens);
  if (ids.length > 0) showNeighbours(ids[0]);
  return scatter;
}

/**
 * @param {Report} report @param {Embeddings} embeddings @param {number | undefined} i
 * @param {number} id @param {Selection} tokens
 */
function listNeighbours(report, embeddings, i, id, tokens) {
  const place = byId("neighbours", HTMLElement);
  const title = element("h4", {}, "Nearest to ", tokenElement(tokenName(report, id)));
  if (i === undefined) {
    place.replaceChildren(title, element("p", {}, "It is not one of the tokens with most lookups."));
    return;
  }
  const list = element("ol", { class: "bars" });
  embeddings.neighbours[i].forEach((other, k) => {
    const cosine = embeddings.cosines[i][k];
    const button = element("button", { type: "button", class: "plain" }, tokenElement(tokenName(report, other)));
    button.addEventListener("click", () => tokens.choose(other));
    const bar = element("i", { class: "bar" });
    bar.style.width = `${Math.max(cosine, 0)}%`;
    list.append(element("li", {}, button, element("span", {}, (cosine / 100).toFixed(2).replace("-", "−")), bar));
  });
  place.replaceChildren(title, list);
}

/** @param {Report} report @param {number[]} ids @param {Selection} tokens */
function searchByName(report, ids, tokens) {
  const input = byId("neighbour-search", HTMLInputElement);
  byId("neighbour-form", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = input.value;
    const names = ids.map((id) => report.vocabulary[id] ?? "");
    const place = [
      (/** @type {string} */ name) => name === wanted,
      (/** @type {string} */ name) => name.trim() === wanted.trim(),
      (/** @type {string} */ name) => name.toLowerCase().includes(wanted.trim().toLowerCase()),
    ].map((matches) => names.findIndex(matches)).find((found) => found >= 0);
    if (place !== undefined && wanted !== "") tokens.choose(ids[place]);
    else byId("neighbours", HTMLElement).replaceChildren(element("p", {}, "There is no such token among these."));
  });
}

/** @param {Report["positions"]} positions */
function showPositions(positions) {
  byId("similarity-part", HTMLElement).hidden = !positions;
  if (!positions) return undefined;
  const { name, cosines } = positions;
  const size = cosines.length;
  byId("similarity-says", HTMLElement).textContent =
    `How alike the ${formatCount(size)} rows of ${name} are (cosines). A band along the diagonal says that ` +
    "near positions are alike; a plain ground, that the model has not arranged them.";
  return new CellMap(byId("similarity", HTMLCanvasElement), {
    count: size * size,
    columns: size,
    maxWidth: 480,
    colour: (cell) => divergingColour(cosines[Math.floor(cell / size)][cell % size] / 100),
    onPoint: (cell) => {
      const [row, column] = [Math.floor(cell / size), cell % size];
      byId("similarity-reading", HTMLElement).textContent =
        `Positions ${row} and ${column}: cosine ${(cosines[row][column] / 100).toFixed(2).replace("-", "−")}`;
    },
  });
}
