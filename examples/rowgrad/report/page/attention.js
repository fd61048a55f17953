// Shows the attention weights for the prompt, by layer and head.

import { CellMap } from "./cell_map.js";
import { cssColour, drawInTheme, sequentialColour } from "./colour.js";
import { spaceBefore, tokenName } from "./data.js";
import { byId, element, tokenElement } from "./dom.js";
import { formatPercent, formatText } from "./format.js";

/** @import { Colour, Report } from "./types" */

/**
 * Returns the colour of the root of a weight, so that small weights are visible.
 * @param {number} thousandths @returns {Colour}
 */
function weightColour(thousandths) {
  return thousandths === 0 ? cssColour("--surface") : sequentialColour(Math.sqrt(thousandths / 1000));
}

/** @param {Report} report */
export function showAttention(report) {
  const attention = report.attention;
  if (!attention?.tokens.length || !attention.weights.length) return undefined;
  const { tokens, weights } = attention;
  const size = tokens.length;
  const part = { layer: 0, head: 0, map: /** @type {CellMap | undefined} */ (undefined) };
  const spans = tokens.map((id) => element("span", {}, formatText(report.vocabulary[id] ?? "�")));
  const prompt = byId("prompt", HTMLElement);
  spans.forEach((span, i) => {
    prompt.append(spaceBefore(report, tokens[i]), span);
    span.addEventListener("click", () => look(i * size + i));
  });
  const weight = (/** @type {number} */ cell) =>
    weights[part.layer][part.head][Math.floor(cell / size)][cell % size];

  /** @param {number} cell */
  function look(cell) {
    part.map?.mark(cell);
    const query = Math.floor(cell / size);
    const row = weights[part.layer][part.head][query];
    spans.forEach((span, key) => {
      const level = Math.min(Math.floor(8 * Math.sqrt(row[key] / 1000)), 7);
      span.className = (key === query ? "chosen " : "") + (row[key] > 0 ? `l${level}` : "");
    });
    const most = row.map((_, key) => key).sort((a, b) => row[b] - row[a]).slice(0, 3).filter((key) => row[key] > 0);
    const name = (/** @type {number} */ i) => tokenElement(tokenName(report, tokens[i]));
    byId("head-reading", HTMLElement).replaceChildren(
      name(query), " attends to ", name(cell % size), ` with ${formatPercent(weight(cell) / 1000)}; most to `,
      ...most.flatMap((key, i) => [i > 0 ? ", " : "", name(key), ` (${formatPercent(row[key] / 1000)})`]), ".");
  }

  /** @param {number} layer @param {number} head */
  function chooseHead(layer, head) {
    part.layer = layer;
    part.head = head;
    byId("head-name", HTMLElement).textContent = `Layer ${layer + 1}, head ${head + 1}`;
    part.map?.paint();
    look(part.map?.marked ?? size * size - 1);
  }

  showHeads(weights, chooseHead);
  prompt.dataset.by = "rarity";
  part.map = new CellMap(byId("head-map", HTMLCanvasElement), {
    count: size * size, columns: size, maxWidth: 480,
    colour: (cell) => weightColour(weight(cell)),
    onPoint: look,
  });
  chooseHead(0, 0);
  return part;
}

/** @param {number[][][][]} weights @param {(layer: number, head: number) => void} onChoose */
function showHeads(weights, onChoose) {
  const group = element("fieldset", { class: "heads" }, element("legend", {}, "Layer and head"));
  weights.forEach((heads, layer) => {
    const line = element("div", {}, element("span", { class: "quiet" }, `Layer ${layer + 1}`));
    heads.forEach((matrix, head) => {
      const input = element("input", {
        type: "radio", name: "head", "aria-label": `Layer ${layer + 1}, head ${head + 1}`,
      });
      input.checked = layer === 0 && head === 0;
      input.addEventListener("change", () => onChoose(layer, head));
      const canvas = element("canvas", { width: matrix.length, height: matrix.length, "aria-hidden": "true" });
      drawInTheme(() => drawThumbnail(canvas, matrix));
      line.append(element("label", { title: `Layer ${layer + 1}, head ${head + 1}` }, input, canvas));
    });
    group.append(line);
  });
  byId("heads", HTMLElement).append(group);
}

/** @param {HTMLCanvasElement} canvas @param {number[][]} matrix */
function drawThumbnail(canvas, matrix) {
  const size = matrix.length;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(size, size);
  matrix.forEach((row, query) =>
    row.forEach((value, key) => image.data.set([...weightColour(value), 255], 4 * (query * size + key))));
  context.putImageData(image, 0, 0);
}
