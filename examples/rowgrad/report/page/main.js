// Starts the parts of the page. Parts without data are hidden.

import { showAttention } from "./attention.js";
import { showCurves } from "./curves.js";
import { readReport } from "./data.js";
import { byId, element, Selection } from "./dom.js";
import { showEmbeddings } from "./embeddings.js";
import { showGlance } from "./glance.js";
import { showRows } from "./rows.js";
import { showRun, showTitle } from "./run.js";
import { showSamples } from "./samples.js";
import { showText } from "./text.js";
import { showVocabulary } from "./vocabulary.js";

/** @import { Report } from "./types" */

/** @param {Report} report */
function showReport(report) {
  const tokens = new Selection();
  showTitle(report);
  const run = showRun(report);
  const loss = showCurves(report);
  const vocabulary = showVocabulary(report, tokens);
  const rows = showRows(report, tokens);
  const text = showText(report, tokens);
  const parts = {
    run, loss, vocabulary, rows, text,
    embeddings: showEmbeddings(report, tokens),
    attention: showAttention(report),
    samples: showSamples(report),
  };
  const glance = showGlance(report, ({ key, row, place }) => {
    if (key === "untouched") rows?.filterBy("untouched");
    if (row !== undefined) tokens.choose(row);
    if (place !== undefined) text?.choose(place);
  });
  const moved = glance.find(({ key }) => key === "moved")?.row;
  if (moved !== undefined) tokens.choose(moved); // shows figures next to the maps from the start
  const contents = byId("contents", HTMLElement);
  for (const [id, part] of Object.entries(parts)) {
    const section = byId(id, HTMLElement);
    section.hidden = part === undefined;
    section.tabIndex = -1; // lets links move the focus to it
    const title = section.querySelector("h2")?.textContent ?? id;
    if (part !== undefined) contents.append(element("li", {}, element("a", { href: `#${id}` }, title)));
  }
  window.rowgradReport = { report, tokens, glance, ...parts };
}

const page = byId("report", HTMLElement);
try {
  showReport(await readReport());
} catch (error) {
  page.replaceChildren(element("p", { class: "notice" }, `This report cannot be shown: ${error instanceof Error ? error.message : error}.`));
  throw error;
} finally {
  page.removeAttribute("aria-busy");
}

// Opens all details for printing.
/** @type {Element[]} */
let openedToPrint = [];
addEventListener("beforeprint", () => {
  openedToPrint = [...page.querySelectorAll("#run details:not([open])")];
  for (const one of openedToPrint) one.setAttribute("open", "");
});
addEventListener("afterprint", () => openedToPrint.forEach((one) => one.removeAttribute("open")));

// Scrolls to the part in the address or, after a reload, to the last position. The browser tried this
// before the page had content. If storage is not allowed, the page starts at its top.
const placeKey = `place in ${location.pathname}`;
addEventListener("pagehide", () => sessionStorage.setItem(placeKey, String(scrollY)));
const [navigation] = /** @type {PerformanceNavigationTiming[]} */ (performance.getEntriesByType("navigation"));
if (navigation?.type === "reload") scrollTo({ top: Number(sessionStorage.getItem(placeKey)), behavior: "instant" });
else if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
