// Shows the rows of the token table: nearest neighbours, and a projection onto two directions.

import { tokenName } from "./data.js";
import { byId, element, tokenElement } from "./dom.js";
import { formatCount, formatPercent } from "./format.js";
import { Scatter } from "./scatter.js";

/** @import { Embeddings, Report } from "./types" */
/** @import { Selection } from "./dom.js" */

/** @param {Report} report @param {Selection} tokens */
export function showEmbeddings(report, tokens) {
  const { embeddings } = report;
  if (!embeddings) return undefined;
  const { ids, x, y, variance } = embeddings;
  const scatter = new Scatter(byId("projection", HTMLCanvasElement), {
    x, y,
    xName: `first direction, ${formatPercent(variance[0])}`,
    yName: `second direction, ${formatPercent(variance[1])} of the variance`,
    label: (i) => tokenName(report, ids[i]),
    onPoint: (i) => tokens.choose(ids[i]),
  });
  byId("projection-says", HTMLElement).textContent =
    `${ids.length === report.vocabulary.length ? "All" : "The"} ${formatCount(ids.length)} tokens` +
    `${ids.length === report.vocabulary.length ? "" : " with the most lookups"}, projected onto the directions of largest variance ` +
    "(principal components). Point at one to see its nearest neighbours by cosine.";
  const places = new Map(ids.map((id, i) => [id, i]));
  const showNeighbours = (/** @type {number} */ id) => {
    const i = places.get(id);
    scatter.mark(i);
    listNeighbours(report, embeddings, i, id, tokens);
  };
  tokens.listen(showNeighbours);
  searchByName(report, ids, tokens);
  if (ids.length > 0) showNeighbours(ids[0]);
  return { projection: scatter };
}

/**
 * @param {Report} report @param {Embeddings} embeddings @param {number | undefined} i
 * @param {number} id @param {Selection} tokens
 */
function listNeighbours(report, embeddings, i, id, tokens) {
  const place = byId("neighbours", HTMLElement);
  const title = element("h3", {}, "Nearest to ", tokenElement(tokenName(report, id)));
  if (i === undefined) {
    place.replaceChildren(title, element("p", {}, "It is not one of the tokens with the most lookups."));
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
    else byId("neighbours", HTMLElement).replaceChildren(element("p", {}, "No such token is shown."));
  });
}
