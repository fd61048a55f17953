// Lists the text that the model generated during training.

import { byId, element } from "./dom.js";
import { formatCount, formatText } from "./format.js";

/** @import { Report } from "./types" */

const shownOpen = 12;

/** @param {Report} report */
export function showSamples({ samples }) {
  if (!samples?.length) return undefined;
  const list = byId("samples-list", HTMLElement);
  const skipped = Math.max(samples.length - shownOpen, 0);
  const items = samples.map(({ steps, text }) =>
    element("li", {}, element("span", { class: "quiet" }, `step ${formatCount(steps)}`),
      element("blockquote", { class: "story", dir: "auto" }, formatText(text))));
  if (skipped > 0) {
    // Samples between the first and the last ones are folded.
    const between = element("ol", {}, ...items.slice(1, 1 + skipped));
    list.append(items[0],
      element("li", {}, element("details", {}, element("summary", {}, `${formatCount(skipped)} more`), between)),
      ...items.slice(1 + skipped));
  } else list.append(...items);
  return { count: samples.length };
}
