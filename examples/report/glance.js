// The questions that a reader comes with, and answers computed from the data.

import { lastFrame, mean, rowName, spaceBefore, tokenName, tokenTable } from "./data.js";
import { byId, element } from "./dom.js";
import { formatCount, formatNumber, formatPercent, formatPlural, formatText } from "./format.js";
import { lossGroups } from "./text.js";

/** @import { Report } from "./types" */

/**
 * @typedef {object} Answer
 * @property {string} key
 * @property {string} question
 * @property {string} figure
 * @property {string} words
 * @property {string} link what leads to the part that shows it
 * @property {string} part
 * @property {number} [row] that is chosen when the link is followed
 * @property {number} [place] the same of a place in the text
 */

/** @param {Report} report @returns {Answer | undefined} */
function isItLearning(report) {
  const losses = (report.curves?.loss ?? []).filter((loss) => loss !== null);
  if (losses.length === 0) return undefined;
  const answer = { key: "learning", question: "Is it still learning?", link: "Loss", part: "loss" };
  if (losses.length < 20)
    return { ...answer, figure: "Too early to say",
      words: losses.length === 1 ? `One step, with a loss of ${formatNumber(losses[0])} nats, shows no trend.`
        : `${losses.length} steps, with losses from ${formatNumber(losses[0])} to ${formatNumber(losses.at(-1))} nats, ` +
          "are too few to show a trend." };
  const tenth = Math.ceil(losses.length / 10);
  const [before, now] = [losses.slice(-2 * tenth, -tenth), losses.slice(-tenth)];
  const change = mean(now) - mean(before);
  const spread = (/** @type {number[]} */ values) => mean(values.map((value) => (value - mean(values)) ** 2)) / values.length;
  const isSure = Math.abs(change) > 2 * Math.sqrt(spread(now) + spread(before));
  const trend = !isSure ? "hardly changes any more" : change < 0 ? "still falls" : "rises";
  const training = `Over the last tenth of the run the training loss ${trend} ` +
    `(${formatNumber(mean(before))} before, ${formatNumber(mean(now))} now).`;
  const validated = (report.evaluations ?? []).flatMap(({ steps, validation_loss: loss }) => (loss === null ? [] : [{ steps, loss }]));
  const last = validated.at(-1);
  if (!last || validated.length < 2)
    return { ...answer, figure: isSure && change < 0 ? "Yes" : isSure ? "No, worse" : "Hardly", words: training };
  const best = validated.reduce((least, one) => (one.loss < least.loss ? one : least));
  if (last.loss > 1.005 * best.loss)
    return { ...answer, figure: isSure && change < 0 ? "Only by heart" : "No",
      words: `On text it has not seen, it was best at step ${formatCount(best.steps)} (${formatNumber(best.loss)}) and has ` +
        `got worse since (${formatNumber(last.loss)}). ${training}` };
  const previous = validated[validated.length - 2];
  const improves = previous.loss - last.loss > 0.002 * last.loss;
  return { ...answer, figure: improves ? "Yes" : "Hardly",
    words: `On text it has not seen, the loss is ${formatNumber(last.loss)} at step ${formatCount(last.steps)}` +
      `${improves ? ", the best so far" : ", near its best"}; it was ${formatNumber(previous.loss)} ` +
      `at step ${formatCount(previous.steps)}. ${training}` };
}

/** @param {Report} report @returns {Answer | undefined} */
function neverTouched(report) {
  const table = tokenTable(report);
  if (!table) return undefined;
  const view = lastFrame(table);
  const rows = [];
  for (let row = 0; row < table.rows; ++row) if (!view.touched(row)) rows.push(row);
  const answer = { key: "untouched", question: "Which tokens never got a gradient?", link: "All of them", part: "rows" };
  if (table.dense)
    return { ...answer, figure: "None", link: rows.length === 0 ? "All rows" : "Those never looked up",
      words: "The token table is the head’s weight too, so every row has a gradient in each step. " +
        (rows.length === 0 ? `All ${formatCount(table.rows)} tokens have also stood in a batch.`
          : `${formatCount(rows.length)} of ${formatCount(table.rows)} tokens never stood in a batch: ` +
            "theirs only made them less likely answers.") };
  if (rows.length === 0) return { ...answer, figure: "None", words: "Every row of the token table has had one.", link: "Map", part: "vocabulary" };
  const { ids = [], training = 0, loss = [] } = report.text ?? {};
  const met = [];
  for (let i = training; i < ids.length; ++i) if (!view.touched(ids[i])) met.push(i);
  const losses = met.flatMap((i) => loss[i] ?? []);
  const example = met.length > 0 ? [...new Set(met.map((i) => ids[i]))] : rows;
  const names = example.slice(0, 6).map((row) => `‘${tokenName(report, row)}’`).join(", ");
  const decay = table.decayed !== undefined && table.decayed < 1
    ? ` Weight decay has still shrunk them, to ${formatPercent(table.decayed)} of what they were.` : "";
  return { ...answer, figure: `${formatCount(rows.length)} of ${formatCount(table.rows)}`,
    words: (losses.length > 0
      ? `The validation text has some of these ${formatPlural(met.length, "time")} (${names}${example.length > 6 ? ", …" : ""}), and each costs ${formatNumber(mean(losses))} nats.`
      : `${example.length > 6 ? "Among them" : "They are"} ${names}. They do not occur in what the model was trained on.`) + decay };
}

/** @param {Report} report @returns {Answer | undefined} */
function movedMost(report) {
  const table = tokenTable(report);
  const frame = table?.frames.at(-1);
  if (!table || !frame || frame.rows.length === 0) return undefined;
  const most = frame.moved.reduce((best, moved, place) => (moved > frame.moved[best] ? place : best), 0);
  const row = frame.rows[most];
  const rank = (/** @type {number[]} */ figures) => {
    const above = figures.filter((figure) => figure > figures[most]).length;
    if (figures.every((figure) => figure === figures[most])) return "like all others";
    return above === 0 ? "the most of all" : `rank ${formatCount(above + 1)} of ${formatCount(figures.length)}`;
  };
  const isAmong = (/** @type {number} */ share, /** @type {number[]} */ figures) =>
    figures.filter((figure) => figure > figures[most]).length < Math.max(share * figures.length, 1);
  const isAdam = String(report.run.options?.["--optimizer"]).startsWith("adam");
  const why = isAmong(0.05, frame.norm) ? "Its gradients are among the largest."
    : isAmong(0.05, frame.lookups) ? "It is among the rows that are looked up most."
    : isAdam ? "Adam takes steps of about the same length for small gradients as for large ones; this row’s kept to one direction more than others’."
    : `Its gradients are ${isAmong(0.25, frame.norm) ? "large, if not the largest, and" : "not large, but"} kept to one direction more than others’.`;
  const idle = table.idle?.rows.indexOf(row) ?? -1;
  const alone = idle < 0 || !table.idle || table.dense ? 0 : table.idle.momentum[idle] + table.idle.decay[idle];
  return { key: "moved", question: "Which row moved most, and why?", link: "Show it in the map", part: "vocabulary", row,
    figure: rowName(report, table, row),
    words: `Row ${formatCount(row)} is ${formatNumber(frame.moved[most])} from where it began. ${why} It has ` +
      `${formatPlural(frame.lookups[most], "lookup")} (${rank(frame.lookups)}), a gradient in ` +
      `${formatPlural(frame.steps[most], "step")} (${rank(frame.steps)}), and gradients that add up to a norm of ` +
      `${formatNumber(frame.norm[most])} (${rank(frame.norm)}).` +
      (alone > 0.05 * frame.moved[most] ? ` ${formatNumber(alone)} of its way it went without a gradient, by momentum or decay.` : "") };
}

const passageLength = 25; // tokens
const longestQuote = 160;
const fewest = 20; // tokens of a group that says something

/**
 * Where the mean loss over a passage is highest; in the validation text if there is enough of it.
 * @param {NonNullable<Report["text"]>} text
 */
function worstPassage({ ids, loss, training }) {
  const from = ids.length - training >= 2 * passageLength ? training : 0;
  let [place, most, sum] = [from, -1, 0];
  for (let i = from; i < ids.length; ++i) {
    sum += (loss[i] ?? 0) - (i - passageLength >= from ? (loss[i - passageLength] ?? 0) : 0);
    if (i - from >= passageLength - 1 && sum > most) [place, most] = [i - passageLength + 1, sum];
  }
  return { place, loss: most / passageLength };
}

/** @param {Report} report @returns {Answer | undefined} */
function whereItIsBad(report) {
  const text = report.text;
  if (!text || text.ids.length < 2 * passageLength) return undefined;
  const all = lossGroups(report, text);
  if (all.length === 0) return undefined; // no loss is finite
  const groups = all.filter(({ count }) => count >= fewest);
  const total = (/** @type {number} */ part) => {
    const counts = all.reduce((sum, group) => sum + group.counts[part], 0);
    return counts > 0 ? all.reduce((sum, group) => sum + group.sums[part], 0) / counts : NaN;
  };
  const [training, validation] = [total(0), total(1)];
  const cost = (/** @type {typeof all[0]} */ { sums, counts }) => (sums[0] + sums[1]) / (counts[0] + counts[1]);
  const worst = groups.reduce((a, b) => (cost(b) > cost(a) ? b : a), groups[0] ?? all[0]);
  const best = groups.reduce((a, b) => (cost(b) < cost(a) ? b : a), groups[0] ?? all[0]);
  const passage = worstPassage(text);
  const gap = Number.isNaN(validation) ? `Mean loss ${formatNumber(training)}.`
    : `${formatNumber(validation)} nats on the validation text, ${formatNumber(training)} on what it was trained on.`;
  const seen = (/** @type {typeof all[0]} */ { name }) =>
    name === "never" ? "never seen in training" : `seen ${name} in training`;
  const quote = formatText(text.ids.slice(passage.place, passage.place + passageLength)
    .map((id) => spaceBefore(report, id) + (report.vocabulary[id] ?? "")).join("").replace(/\s+/g, " ").trim().slice(0, longestQuote));
  const isRare = worst.least < best.least;
  return { key: "worst", question: "Where does the model do badly?", link: "The worst passage", part: "text", place: passage.place,
    figure: groups.length < 2 ? "Evenly" : isRare ? "Rare tokens" : "Frequent tokens",
    words: `${gap} ` + (groups.length < 2 ? "" : `A token ${seen(worst)} costs ${formatNumber(cost(worst))}, ` +
      `one ${seen(best)} ${formatNumber(cost(best))}. `) +
      `The worst ${passageLength} tokens in a row cost ${formatNumber(passage.loss)} each: “${quote}”.` };
}

/**
 * @param {Report} report
 * @param {(answer: Answer) => void} onFollow
 */
export function showGlance(report, onFollow) {
  const answers = [isItLearning(report), neverTouched(report), movedMost(report), whereItIsBad(report)]
    .filter((answer) => answer !== undefined);
  byId("glance", HTMLElement).hidden = answers.length === 0;
  for (const answer of answers) {
    const link = element("a", { href: `#${answer.part}` }, `${answer.link} →`);
    link.addEventListener("click", () => onFollow(answer));
    byId("answers", HTMLElement).append(element("article", { "data-key": answer.key },
      element("h3", {}, answer.question), element("p", { class: "figure" }, element("bdi", {}, answer.figure)),
      element("p", {}, answer.words), element("p", {}, link)));
  }
  return answers;
}
