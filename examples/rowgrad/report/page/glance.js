// Answers the most frequent questions about a run from its data.

import { kindPlural, lastFrame, mainTable, mean, nats, placeOfMost, rowName, sinceWords, spaceBefore, untouchedNote } from "./data.js";
import { byId, element, tokenElement } from "./dom.js";
import { formatCount, formatNumber, formatPercent, formatPlural, formatText } from "./format.js";
import { lossGroups, trainedWords, validationWords } from "./text.js";

/** @import { Report } from "./types" */

/**
 * @typedef {object} Answer
 * @property {string} key
 * @property {string} question
 * @property {string} figure
 * @property {(string | Node)[]} words
 * @property {string} link text of the link to the part that shows it
 * @property {string} part
 * @property {number} [row] selected by the link
 * @property {number} [place] position in the text, selected by the link
 */

/** @param {Report} report @returns {Answer | undefined} */
function isItLearning(report) {
  const losses = (report.curves?.loss ?? []).filter((loss) => loss !== null);
  if (losses.length === 0) return undefined;
  const answer = { key: "learning", question: "Is it still learning?", link: "Loss", part: "loss" };
  if (losses.length < 20)
    return { ...answer, figure: "Too early to say",
      words: [losses.length === 1 ? `One step, with a loss of ${formatNumber(losses[0])}${nats(report)}, shows no trend.`
        : `${losses.length} steps, with losses from ${formatNumber(losses[0])} to ${formatNumber(losses.at(-1))}${nats(report)}, ` +
          "are too few to show a trend."] };
  const tenth = Math.ceil(losses.length / 10);
  const [before, now] = [losses.slice(-2 * tenth, -tenth), losses.slice(-tenth)];
  const change = mean(now) - mean(before);
  const spread = (/** @type {number[]} */ values) => mean(values.map((value) => (value - mean(values)) ** 2)) / values.length;
  const isSure = Math.abs(change) > 2 * Math.sqrt(spread(now) + spread(before));
  const trend = !isSure ? "hardly changes any more" : change < 0 ? "still falls" : "rises";
  const since = sinceWords(report);
  const training = `Over the last tenth of the ${since ? "steps" : "run"}${since} the training loss ${trend} ` +
    `(${formatNumber(mean(before))} before, ${formatNumber(mean(now))} now).`;
  const validated = (report.evaluations ?? []).flatMap(({ steps, validation_loss: loss }) => (loss === null ? [] : [{ steps, loss }]));
  const last = validated.at(-1);
  if (!last || validated.length < 2)
    return { ...answer, figure: isSure && change < 0 ? "Yes" : isSure ? "No, worse" : "Hardly", words: [training] };
  const best = validated.reduce((least, one) => (one.loss < least.loss ? one : least));
  if (last.loss > 1.005 * best.loss)
    return { ...answer, figure: isSure && change < 0 ? "Overfitting" : "No",
      words: [`On validation data, the loss was best at step ${formatCount(best.steps)} (${formatNumber(best.loss)}) and has ` +
        `risen since (${formatNumber(last.loss)}). ${training}`] };
  const previous = validated[validated.length - 2];
  const improves = previous.loss - last.loss > 0.002 * last.loss;
  return { ...answer, figure: improves ? "Yes" : "Hardly",
    words: [`On validation data, the loss is ${formatNumber(last.loss)} at step ${formatCount(last.steps)}` +
      `${!improves ? ", near its best" : `, the best${since || " so far"}`}; it was ${formatNumber(previous.loss)} ` +
      `at step ${formatCount(previous.steps)}. ${training}`] };
}

/** @param {Report} report @returns {Answer | undefined} */
function neverTouched(report) {
  const table = mainTable(report);
  if (!table) return undefined;
  const what = kindPlural(table);
  const view = lastFrame(table);
  const rows = [];
  for (let row = 0; row < table.rows; ++row) if (!view.touched(row)) rows.push(row);
  const since = sinceWords(report);
  const answer = { key: "untouched", question: `Which ${what} never got a gradient${since}?`, link: "All of them", part: "rows" };
  if (table.dense)
    return { ...answer, figure: "None", link: rows.length === 0 ? "All rows" : "Rows never looked up",
      words: [`${table.name} is also the head’s weight, so every row has a gradient in each step. ` +
        (rows.length === 0 ? `All ${formatCount(table.rows)} ${what} also occurred in a batch${since}.`
          : `${formatCount(rows.length)} of ${formatCount(table.rows)} ${what} never occurred in a batch${since}: ` +
            "these gradients only made them less likely predictions.")] };
  if (rows.length === 0)
    return { ...answer, figure: "None", words: [`Every row of ${table.name} has had a gradient${since}.`], link: "Map", part: "vocabulary" };
  const { ids = [], training = 0, loss = [] } = report.text ?? {};
  const met = [];
  for (let i = training; i < ids.length; ++i) if (!view.touched(ids[i])) met.push(i);
  const losses = met.flatMap((i) => loss[i] ?? []);
  const example = met.length > 0 ? [...new Set(met.map((i) => ids[i]))] : rows;
  const names = example.slice(0, 6).flatMap((row, i) => [i > 0 ? ", " : "", tokenElement(rowName(report, table, row))]);
  const note = untouchedNote(table);
  return { ...answer, figure: `${formatCount(rows.length)} of ${formatCount(table.rows)}`,
    words: [
      ...(losses.length > 0
        ? [`The validation text contains some of them ${formatPlural(met.length, "time")} (`, ...names, example.length > 6 ? ", …" : "",
          `), with a mean loss of ${formatNumber(mean(losses))} nats.`]
        : [example.length > 6 ? "Among them are " : "They are ", ...names, "."]),
      ` No batch contained them${since}. ${note}`] };
}

/** @param {number[]} numbers */
function median(numbers) {
  return [...numbers].sort((a, b) => a - b)[numbers.length >> 1];
}

/** @param {Report} report @returns {Answer | undefined} */
function movedMost(report) {
  const table = mainTable(report);
  const frame = table?.frames.at(-1);
  if (!table || !frame || frame.rows.length === 0) return undefined;
  const most = placeOfMost(frame.moved);
  const row = frame.rows[most];
  const answer = { key: "moved", question: "Which row moved most, and why?", link: "Show it in the map", part: "vocabulary", row };
  if (!(frame.moved[most] > 0))
    return { ...answer, figure: "None", words: ["No row has moved by a finite distance."] };
  const [lookups, steps] = [frame.lookups, frame.steps].map((figures) => ({ own: figures[most], middle: median(figures) }));
  const stride = frame.moved.map((moved, place) => moved / Math.max(frame.steps[place], 1));
  const long = { own: stride[most], middle: median(stride) };
  const isHigh = (/** @type {{own: number, middle: number}} */ { own, middle }) => own >= 3 * middle;
  const why = isHigh(lookups) ? "It was looked up far more often than most."
    : isHigh(long) ? "Its lookups are not unusual, but it moved farther in each of its steps."
    : "No single figure explains it.";
  const idle = table.dense ? -1 : table.idle?.rows.indexOf(row) ?? -1;
  const [momentum, decay] = [table.idle?.momentum[idle] ?? 0, table.idle?.decay[idle] ?? 0];
  const alone = table.coupled_decay ? `momentum and decay together moved it by ${formatNumber(momentum)}`
    : `momentum moved it by ${formatNumber(momentum)}, decay by ${formatNumber(decay)}`;
  return { ...answer, figure: rowName(report, table, row),
    words: [`Row ${formatCount(row)} has moved by ${formatNumber(frame.moved[most])}${sinceWords(report)}. ` +
      `${why} It had ${formatPlural(lookups.own, "lookup")}, in ${formatPlural(steps.own, "step")}; the median row had ` +
      `${formatCount(lookups.middle)}, in ${formatCount(steps.middle)}.` +
      (momentum + decay > 0.05 * frame.moved[most] ? ` In steps without a gradient, ${alone}.` : "") +
      (table.dense ? " Only rows that were looked up are compared."
        : table.coupled_decay ? " Only rows that had a gradient are compared." : "")] };
}

const passageLength = 25; // tokens
const longestQuote = 160;
const fewest = 20; // minimum of tokens in a group

/**
 * Finds the passage with the highest mean loss, in the validation text or, if that is too short, in the
 * training text.
 * @param {NonNullable<Report["text"]>} text
 */
function worstPassage({ ids, loss, training }) {
  const isValidation = ids.length - training >= 2 * passageLength;
  const [from, end] = isValidation ? [training, ids.length] : [0, Math.max(training, passageLength)];
  let [place, most, sum] = [from, -1, 0];
  for (let i = from; i < end; ++i) {
    sum += (loss[i] ?? 0) - (i - passageLength >= from ? (loss[i - passageLength] ?? 0) : 0);
    if (i - from >= passageLength - 1 && sum > most) [place, most] = [i - passageLength + 1, sum];
  }
  return { place, loss: most / passageLength, isValidation };
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
    : `${formatNumber(validation)} nats on ${validationWords(text)}, ${formatNumber(training)} on ${trainedWords(text)}.`;
  const seen = (/** @type {typeof all[0]} */ { name }) =>
    (name === "never" ? "never seen" : `seen ${name}`) + (sinceWords(report) || " in training");
  const quote = formatText(text.ids.slice(passage.place, passage.place + passageLength)
    .map((id) => spaceBefore(report, id) + (report.vocabulary[id] ?? "")).join("").replace(/\s+/g, " ").trim().slice(0, longestQuote));
  const sum = (/** @type {typeof all} */ some) => some.reduce((most, { sums }) => most + sums[0] + sums[1], 0);
  const [heaviest] = [...all].sort((a, b) => sum([b]) - sum([a]));
  const tokens = all.reduce((count, group) => count + group.count, 0);
  return { key: "worst", question: "Where is the loss highest?", link: "The worst passage", part: "text", place: passage.place,
    figure: groups.length < 2 ? "Evenly" : `Tokens ${seen(heaviest)}`,
    words: [`${gap} ` + (groups.length < 2 ? "" : `Tokens ${seen(heaviest)} account for ${formatPercent(sum([heaviest]) / sum(all))} of the loss ` +
      `and ${formatPercent(heaviest.count / tokens)} of the text. The mean loss is ${formatNumber(cost(worst))} for tokens ${seen(worst)} ` +
      `and ${formatNumber(cost(best))} for tokens ${seen(best)}. `) +
      `The worst passage of ${passageLength} tokens in the ${passage.isValidation ? "validation" : "training"} text ` +
      `has a mean loss of ${formatNumber(passage.loss)}: `, tokenElement(quote)] };
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
      element("p", {}, ...answer.words), element("p", {}, link)));
  }
  return answers;
}
