// Shows the text, shaded by the loss of each token, its rarity, or the gate of a memory.

import { lastFrame, measureOf, sinceWords, spaceBefore, tokenName, tokenTable } from "./data.js";
import { byId, choiceGroup, definitionList, element, tokenElement } from "./dom.js";
import { formatCount, formatNumber, formatPercent, formatText, formatTitle } from "./format.js";

/** @import { Passage, Report } from "./types" */
/** @import { Selection } from "./dom.js" */

const levels = 8; // of shading
const leastShare = 0.0005; // shares are rounded to thousandths, so 0 stands for less than this

/**
 * Tokens with a similar number of lookups in training, and their losses.
 * @typedef {object} LossGroup
 * @property {string} name
 * @property {number} least minimum of lookups
 * @property {number} count number of tokens
 * @property {number[]} sums sums of their losses in the training and in the validation text
 * @property {number[]} counts
 */

/**
 * A way to shade the text.
 * @typedef {object} Shading
 * @property {string} key
 * @property {string} name
 * @property {(i: number) => number} level level of a token, from 0 to 7; −1 if training never saw it
 * @property {[string, string]} ends meanings of the weakest and the strongest shade
 */

/** @param {Report} report @returns {(id: number) => number} the number of lookups of a token in training */
export function lookupsOf(report) {
  const table = tokenTable(report);
  if (table) {
    const view = lastFrame(table);
    return (id) => view.value(measureOf("lookups"), id) ?? 0;
  }
  const counts = new Map();
  const { ids = [], training = 0 } = report.text ?? {};
  for (const id of ids.slice(0, training)) counts.set(id, (counts.get(id) ?? 0) + 1);
  return (id) => counts.get(id) ?? 0;
}

/** @param {Report} report @param {Passage} text @returns {LossGroup[]} rare tokens first, without empty groups */
export function lossGroups(report, text) {
  const lookups = lookupsOf(report);
  /** @type {LossGroup[]} */
  const groups = [];
  text.ids.forEach((id, i) => {
    const loss = text.loss[i];
    if (loss === null) return;
    const seen = lookups(id);
    const place = seen === 0 ? 0 : 1 + Math.floor(Math.log10(seen));
    const least = seen === 0 ? 0 : 10 ** (place - 1);
    const group = (groups[place] ??= {
      name: seen === 0 ? "never" : `${formatCount(least)} to ${formatCount(10 * least - 1)} times`,
      least, count: 0, sums: [0, 0], counts: [0, 0],
    });
    const part = i < text.training ? 0 : 1;
    group.count += 1;
    group.sums[part] += loss;
    group.counts[part] += 1;
  });
  return groups.filter(Boolean);
}

/**
 * Describes the part of a text that is shown.
 * @param {number} here @param {number} leftOut @param {string} kind
 * @returns {string} "the first 10 of 20 training tokens", or "all 10 training tokens"
 */
function partWords(here, leftOut, kind) {
  return leftOut > 0 ? `the first ${formatCount(here)} of ${formatCount(here + leftOut)} ${kind} tokens` : `all ${formatCount(here)} ${kind} tokens`;
}

/** @param {Passage} text */
export function trainedWords({ training, left_out: leftOut }) {
  return leftOut?.training ? partWords(training, leftOut.training, "training") : "the training text";
}

/** @param {Passage} text */
export function validationWords({ ids, training, left_out: leftOut }) {
  return leftOut?.validation ? partWords(ids.length - training, leftOut.validation, "validation") : "the validation text";
}

/** @param {Report} report @param {Passage} text */
function describeText({ run }, { ids, training, left_out: leftOut }) {
  const isWhole = !leftOut?.training && !leftOut?.validation;
  const parts = [partWords(training, leftOut?.training ?? 0, "training")];
  if (ids.length > training || leftOut?.validation)
    parts.push(partWords(ids.length - training, leftOut?.validation ?? 0, "validation"));
  return `${isWhole ? "The text" : formatTitle(parts.join(" and "))}, with the losses of the model ` +
    `${run.state === "stopped" ? "when the run was stopped" : "at the end of the run"}. ` +
    "A stronger colour marks a less expected token. Tap a token to see what was expected instead.";
}

/** The text, with a span for each token. */
class ShadedText {
  current = -1;

  /** @param {Report} report @param {Passage} text @param {(i: number) => void} onChoose */
  constructor(report, text, onChoose) {
    this.place = byId("passage", HTMLElement);
    this.onChoose = onChoose;
    this.spans = text.ids.map((id) => element("span", {}, formatText(report.vocabulary[id] ?? "�")));
    const all = document.createDocumentFragment();
    this.spans.forEach((span, i) => {
      if (i === text.training && i > 0)
        all.append(element("b", { class: "boundary" }, "The model was not trained on the text below."));
      all.append(spaceBefore(report, text.ids[i]), span);
    });
    this.place.append(all);
    const places = new Map(this.spans.map((span, i) => [span, i]));
    this.place.addEventListener("click", ({ target }) => {
      const i = places.get(/** @type {HTMLSpanElement} */ (target));
      if (i !== undefined) this.choose(i);
    });
    this.place.addEventListener("keydown", (event) => this.#onKey(event));
  }

  /** @param {(i: number) => number} level from 0 to 7; −1 if training never saw the token */
  shade(level) {
    this.spans.forEach((span, i) => {
      const shade = level(i);
      span.className = (shade < 0 ? "untouched" : `l${shade}`) + (i === this.current ? " chosen" : "");
    });
  }

  /** @param {number} i */
  mark(i) {
    this.spans[this.current]?.classList.remove("chosen");
    this.current = i;
    this.spans[i].classList.add("chosen");
  }

  /** @param {number} i */
  choose(i) {
    if (i < 0 || i >= this.spans.length) return;
    this.mark(i);
    const { top, bottom } = this.spans[i].getBoundingClientRect();
    const box = this.place.getBoundingClientRect();
    if (top < box.top || bottom > box.bottom) this.place.scrollTop += top - box.top - box.height / 3;
    this.onChoose(i);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    /** @type {Record<string, number>} */
    const targets = {
      ArrowLeft: this.current - 1,
      ArrowRight: this.current + 1,
      PageUp: Math.max(this.current - 100, 0),
      PageDown: Math.min(this.current + 100, this.spans.length - 1),
      Home: 0,
      End: this.spans.length - 1,
    };
    if (!Object.hasOwn(targets, event.key)) return;
    event.preventDefault();
    this.choose(targets[event.key]);
  }
}

/** @param {Report} report @param {Selection} tokens */
export function showText(report, tokens) {
  const text = report.text;
  if (!text?.ids.length) return undefined;
  const lookups = lookupsOf(report);
  const reading = byId("text-reading", HTMLElement);
  const read = (/** @type {number} */ i) =>
    reading.replaceChildren(...describeToken(report, text, i, lookups(text.ids[i])));
  const shown = new ShadedText(report, text, (i) => {
    read(i);
    tokens.choose(text.ids[i]);
  });
  const all = shadingsOf(report, text, lookups);
  const shade = (/** @type {string} */ key) => {
    const shading = /** @type {Shading} */ (all.find((one) => one.key === key));
    shown.place.dataset.by = key;
    shown.shade(shading.level);
    byId("shading-legend", HTMLElement).replaceChildren(...shadingLegend(report, shading));
  };
  choiceGroup(byId("shading", HTMLElement), "Shaded by", all.map(({ key, name }) => [key, name]), shade);
  shade("loss");
  byId("text-says", HTMLElement).textContent = describeText(report, text);
  const opening = text.loss.slice(0, 60).map((loss) => loss ?? 0);
  const first = opening.indexOf(Math.max(...opening));
  shown.mark(first);
  read(first);
  showGroups(report, lossGroups(report, text));
  return shown;
}

/**
 * Returns the ways to shade the text. Gates are shaded from the least open to the most open one.
 * @param {Report} report @param {Passage} text @param {(id: number) => number} lookups @returns {Shading[]}
 */
function shadingsOf(report, text, lookups) {
  const worst = report.baselines?.uniform ?? Math.log(report.vocabulary.length);
  const most = Math.log(1 + text.ids.reduce((max, id) => Math.max(max, lookups(id)), 1));
  const toLevel = (/** @type {number} */ share) => Math.max(Math.min(Math.floor(levels * share), levels - 1), 0);
  const rarity = (/** @type {number} */ i) => {
    const seen = lookups(text.ids[i]);
    return seen === 0 ? -1 : toLevel(1 - Math.log(1 + seen) / most);
  };
  return [
    { key: "loss", name: "Loss", level: (i) => toLevel((text.loss[i] ?? 0) / worst),
      ends: ["expected", `as bad as guessing (${formatNumber(worst)} nats)`] },
    { key: "rarity", name: "Rarity", level: rarity, ends: ["frequent", "rare"] },
    ...gateNames(text).map(({ name, values }) => {
      const known = values.filter((value) => value !== null);
      const [least, greatest] = known.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [1000, 0]);
      return {
        key: name, name, ends: /** @type {[string, string]} */ ([formatNumber(least / 1000), `${formatNumber(greatest / 1000)} of the memory’s output`]),
        level: (/** @type {number} */ i) => toLevel(((values[i] ?? least) - least) / (greatest - least || 1)),
      };
    }),
  ];
}

/** Returns the gates of the memories, by name. @param {Passage} text */
function gateNames({ gates = [] }) {
  return gates.map(({ block, values }) => ({ name: gates.length > 1 ? `Gate before block ${block}` : "Gate", values }));
}

/** @param {number | null} thousandths */
function formatGate(thousandths) {
  return thousandths === null ? "none: the model did not read this token" : formatNumber(thousandths / 1000);
}

/** @param {Report} report @param {Shading} shading */
function shadingLegend(report, { key, ends }) {
  const ramp = element("span", { class: "shades", "data-by": key });
  for (let level = 0; level < levels; ++level) ramp.append(element("i", { class: `l${level}` }));
  const parts = [element("span", { class: "legend-line" }, element("span", {}, ends[0]), ramp, element("span", {}, ends[1]))];
  if (key === "rarity")
    parts.push(element("span", { class: "legend-key" }, element("i", { class: "key untouched" }), ` never seen${sinceWords(report) || " in training"}`));
  return parts;
}

/** @param {Report} report @param {Passage} text @param {number} i @param {number} seen */
function describeToken(report, text, i, seen) {
  const id = text.ids[i];
  const loss = text.loss[i];
  const parts = [
    element("h3", {}, tokenElement(tokenName(report, id))),
    element("p", { class: "quiet" },
      `id ${id}, token ${formatCount(i + 1)} of ${formatCount(text.ids.length)}, ` +
      (i < text.training ? "training text" : "validation text")),
    definitionList([
      ["Loss", loss !== null ? `${formatNumber(loss)} nats`
        : i === 0 || i === text.training ? "none: nothing comes before it" : "not finite"],
      ["Probability", loss === null ? "–" : formatPercent(Math.exp(-loss))],
      ["Lookups", formatCount(seen)],
      ...gateNames(text).map(({ name, values }) => /** @type {[string, string]} */ ([name, formatGate(values[i])])),
    ]),
  ];
  const expected = text.expected[i] ?? [];
  if (expected.length === 0) return parts;
  const list = element("ol", { class: "bars" });
  expected.forEach((other, k) => {
    const share = text.probability[i][k] / 1000;
    const bar = element("i", { class: "bar" });
    bar.style.width = `${100 * share}%`;
    list.append(element("li", { class: other === id ? "right" : "" },
      tokenElement(tokenName(report, other)), element("span", {}, formatPercent(share || leastShare)), bar));
  });
  return [...parts, element("h4", {}, "Expected here"), list];
}

/** @param {Report} report @param {LossGroup[]} groups */
function showGroups(report, groups) {
  const all = groups.reduce((sum, { sums }) => sum + sums[0] + sums[1], 0);
  const head = element("tr");
  for (const name of [`Seen${sinceWords(report) || " in training"}`, "Tokens", "Training loss", "Validation loss", "Share of all loss"])
    head.append(element("th", { scope: "col", class: name.startsWith("Seen") ? "" : "number" }, name));
  head.append(element("td"));
  const body = element("tbody");
  for (const { name, count, sums, counts } of groups) {
    const share = (sums[0] + sums[1]) / all;
    const bar = element("i", { class: "bar" });
    bar.style.width = `${100 * share}%`;
    const means = sums.map((sum, part) => (counts[part] > 0 ? formatNumber(sum / counts[part]) : "–"));
    body.append(element("tr", {}, element("th", { scope: "row" }, name),
      element("td", { class: "number" }, formatCount(count)),
      element("td", { class: "number" }, means[0]), element("td", { class: "number" }, means[1]),
      element("td", { class: "number" }, formatPercent(share)), element("td", { class: "bar-cell" }, bar)));
  }
  byId("loss-groups", HTMLElement).append(element("thead", {}, head), body);
}
