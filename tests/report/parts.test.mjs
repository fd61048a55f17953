// Tests of the answers at a glance, the text, the embeddings, attention and the samples.

import assert from "node:assert/strict";
import { test } from "node:test";

import { pixelOf, placeOn, shareReport, testReport, textOf } from "./browser.mjs";
import { makeMemoryReport, makeReport, makeShortReport, makeOwnReport } from "./fixture.mjs";

const report = makeReport();
const [table] = report.tables;
const frame = table.frames.at(-1);
const name = (id) => report.vocabulary[id].replaceAll(" ", "␣").replaceAll("\n", "⏎");
const tab = await shareReport(report);

const answer = (key) => textOf(tab, `#answers [data-key="${key}"]`);

test("the page opens with answers to the four questions", async () => {
  assert.match(await answer("learning"), /Overfitting .* best at step 360/);
  assert.match(await answer("untouched"), new RegExp(`${table.rows - frame.rows.length} of ${table.rows}`));
  const most = frame.moved.indexOf(Math.max(...frame.moved));
  const moved = await answer("moved");
  assert.ok(moved.includes(`${name(frame.rows[most])} Row ${frame.rows[most]} has moved by ${frame.moved[most].toPrecision(3)}.`), moved);
  assert.match(await answer("worst"),
    /Tokens seen [\d,]+ to [\d,]+ times in training .* account for \d.* % of the loss and \d.* % of the text\. The mean loss is .* for tokens never seen in training .* tokens in the validation text has a mean loss of .*: .+/);
});

test("the link of an answer shows its subject", async () => {
  await tab.click('#answers [data-key="untouched"] a');
  assert.equal(await tab.$eval("#rows-filter", (select) => select.value), "untouched");
  await tab.focus('#answers [data-key="untouched"] a');
  await tab.keyboard.press("Enter");
  assert.equal(await tab.evaluate(() => document.activeElement.id), "rows");
  await tab.click('#answers [data-key="worst"] a');
  const place = await tab.evaluate(() => window.rowgradReport.glance.find(({ key }) => key === "worst").place);
  assert.ok(place >= report.text.training);
  assert.equal(await tab.evaluate(() => window.rowgradReport.text.current), place);
});

test("the text is shaded by the loss of its tokens", async () => {
  const spans = await tab.evaluate(() =>
    [...document.querySelectorAll("#passage > span")].map((span) => [span.textContent, span.className]));
  assert.deepEqual(spans.map(([text]) => text), report.text.ids.map((id) => report.vocabulary[id]));
  spans.forEach(([, shade], i) => {
    const level = Math.min(Math.floor((8 * (report.text.loss[i] ?? 0)) / report.baselines.uniform), 7);
    assert.equal(shade.split(" ")[0], `l${level}`);
  });
});

test("a tapped token shows what was expected instead", async () => {
  const i = 12;
  await tab.mouse.click(...(await placeOn(tab, `#passage > span:nth-of-type(${i + 1})`, 6, 10)));
  const reading = await textOf(tab, "#text-reading");
  assert.ok(reading.startsWith(`${name(report.text.ids[i])} id ${report.text.ids[i]}, token 13 of`), reading);
  const expected = await tab.$$eval("#text-reading .bars bdi", (all) => all.map((one) => one.textContent));
  assert.deepEqual(expected, report.text.expected[i].map(name));
  assert.equal(await tab.evaluate(() => window.rowgradReport.tokens.id), report.text.ids[i]);
  await tab.focus("#passage");
  await tab.keyboard.press("ArrowRight");
  assert.match(await textOf(tab, "#text-reading"), /token 14 of/);
});

test("shading by rarity marks what training never saw", async () => {
  await tab.focus("#shading input:checked");
  await tab.keyboard.press("ArrowRight");
  const marked = await tab.evaluate(() =>
    [...document.querySelectorAll("#passage > span")].flatMap((span, i) => (span.classList.contains("untouched") ? i : [])));
  const seen = new Set(frame.rows);
  assert.ok(marked.length > 0);
  assert.deepEqual(marked, [...report.text.ids.keys()].filter((i) => !seen.has(report.text.ids[i])));
});

test("the groups of the loss table add up to the text", async () => {
  const counts = await tab.$$eval("#loss-groups tbody tr", (lines) => lines.map((line) => Number(line.children[1].textContent.replace(",", ""))));
  assert.equal(counts.reduce((a, b) => a + b), report.text.ids.length - 2);
});

test("neighbours of a token equal the data, and tokens are found by name", async () => {
  const { ids, neighbours } = report.embeddings;
  await tab.type("#neighbour-search", report.vocabulary[ids[20]]);
  await tab.keyboard.press("Enter");
  const listed = await tab.$$eval("#neighbours bdi", (all) => all.map((one) => one.textContent));
  assert.deepEqual(listed, [name(ids[20]), ...neighbours[20].map(name)]);
  assert.equal(await tab.evaluate(() => window.rowgradReport.embeddings.projection.marked), 20);
});

test("labels of points hide no points and no other labels", async () => {
  const [labels, clashes] = await tab.evaluate(() => {
    const { projection } = window.rowgradReport.embeddings;
    const points = projection.drawn.map((i) => projection.pixel(i));
    return [projection.labels.length, projection.labels.filter(([left, right, middle], i) =>
      points.some(([x, y]) => x > left + 4 && x < right - 2 && Math.abs(y - middle) < 6) ||
      projection.labels.some(([from, to, line], k) => k !== i && Math.abs(line - middle) < 12 && from < right && to > left))];
  });
  assert.ok(labels > 10, `${labels} labels`);
  assert.deepEqual(clashes, []);
});

test("a head is selected with the keyboard, and its weights are drawn and named", async () => {
  await tab.focus("#heads input:checked");
  await tab.keyboard.press("ArrowRight");
  assert.equal(await textOf(tab, "#head-name"), "Layer 1, head 2");
  await tab.focus("#head-map");
  await tab.keyboard.press("End");
  const row = report.attention.weights[0][1].at(-1);
  assert.match(await textOf(tab, "#head-reading"), new RegExp(`most to ${name(report.attention.tokens[row.indexOf(Math.max(...row))])} `));
  const size = (await tab.$eval("#head-map", (canvas) => canvas.width)) / row.length;
  const colour = async (query, key) => (await pixelOf(tab, "#head-map", (key + 0.5) * size, (query + 0.5) * size)).slice(0, 3).join();
  assert.equal(await colour(0, 5), "255,255,255", "what comes later has no weight");
  assert.notEqual(await colour(5, 0), await colour(5, 3), "the first token has more");
});

test("all samples are shown, by step", async () => {
  const texts = await tab.$$eval("#samples-list blockquote", (all) => all.map((one) => one.textContent));
  assert.deepEqual(texts, report.samples.map(({ text }) => text));
});

const short = makeShortReport();
const unfinished = makeReport({ state: "running" });

const ofWords = makeReport();
ofWords.words = true;
ofWords.vocabulary = ofWords.vocabulary.map((token) => token.trim() || ".");
testReport("words are separated by spaces, whatever the name of the tokenizer", ofWords, {}, async (other) => {
  const passage = await other.$eval("#passage", (all) => all.textContent);
  assert.equal(passage.slice(0, 38), " It was the guards who found it out. A");
});

testReport("a run of one step lists the values of its curves, and shows all other parts", makeShortReport(), {}, async (one) => {
  assert.equal(await one.$eval("#loss .of-curves", (part) => part.hidden), true);
  assert.equal(await textOf(one, "#one-step"), `Step 1 Loss ${short.curves.loss[0].toPrecision(3)} Loss if all tokens were equally likely ${short.baselines.uniform} ` +
    `Loss if each token were as likely as it is frequent ${short.baselines.unigram} Learning rate 2e−6 ` +
    `Gradient norm ${short.norms.norm[0].toPrecision(3)} Distinct rows with a gradient ${short.curves.rows[0]}`);
  assert.match(await textOf(one, '#answers [data-key="learning"]'), /Too early to say One step, with a loss of/);
  assert.match(await textOf(one, '#answers [data-key="moved"]'), /It had \d+ lookups?, in 1 step; the median row had \d+, in 1\./);
  assert.equal((await one.$$("#answers article")).length, 4);
  assert.equal(await one.$eval("#frame", (slider) => slider.disabled), true);
  assert.match(await textOf(one, "#frame-says"), /^after step 1, frame 1 of 1$/);
  assert.equal(await one.$eval("#chart-rows", (part) => part.offsetHeight), 0);
  const shown = await one.$$eval("#contents a", (links) => links.map((link) => link.hash));
  assert.deepEqual(shown, ["#run", "#loss", "#vocabulary", "#rows", "#text", "#embeddings", "#attention"]);
});

testReport("a run of a few steps has curves and baselines", makeShortReport({ steps: 5 }), {}, async (few) => {
  assert.equal(await few.$eval("#baselines-say", (words) => words.hidden), false);
  assert.equal(await few.evaluate(() => window.rowgradReport.loss.charts.length), 5);
  assert.match(await textOf(few, '#answers [data-key="learning"]'), /5 steps, with losses from .* are too few/);
});

const accurate = makeReport({ steps: 60, frames: 3 });
Object.assign(accurate.evaluations.at(-1), { training_accuracy: 0.93, validation_accuracy: 0.875 });
testReport("a run that computes accuracies shows the last ones", accurate, {}, async (other) => {
  assert.match(await textOf(other, "#run-facts"), /Accuracy 93\s% in training, 88\s% in validation \(step 60\)/);
});

for (const state of ["finished", "running"]) {
  const faulty = makeReport({ steps: 60, frames: 3, state });
  faulty.run.fault = "GRU: cannot read it";
  testReport(`a report of a ${state} run names its error`, faulty, {}, async (other) => {
    assert.match(await textOf(other, "#state"), /This report is incomplete: GRU: cannot read it$/);
  });
}

const diverged = makeReport({ steps: 60, frames: 3 });
for (const losses of [diverged.curves.loss, diverged.norms.norm, diverged.norms.clipped, diverged.text.loss]) losses.fill(null);
for (const one of diverged.evaluations) one.training_loss = one.validation_loss = null;
for (const { moved, norm } of diverged.tables[0].frames) [moved, norm].forEach((figures) => figures.fill(null));

testReport("a run without finite values is shown", diverged, {}, async (other) => {
  assert.equal(await other.$(".notice:not(#state)"), null);
  assert.match(await textOf(other, "#text-reading"), /Loss none/);
});

testReport("an unfinished run says so, and hides parts without data", unfinished, {}, async (going) => {
  assert.match(await textOf(going, "#state"), /had not ended .* after step 600\. Reload it/);
  const shown = await going.$$eval("#contents a", (links) => links.map((link) => link.hash));
  assert.deepEqual(shown, ["#run", "#loss", "#vocabulary", "#rows", "#samples"]);
  const visible = await going.$$eval("main section", (all) => all.filter((one) => one.offsetHeight > 0).map((one) => `#${one.id}`));
  assert.deepEqual(visible, ["#glance", ...shown]);
});

const stopped = makeReport({ steps: 60, frames: 3, state: "stopped" });
stopped.run.options["--steps"] = 200;
const { text: { ids } } = stopped;
stopped.run.seconds = 119.6;
stopped.text.loss[1] = 10;
stopped.text.probability[1].fill(0);
stopped.text.left_out = { training: 13725, validation: 0 };
const interrupted = { ...stopped, text: undefined };

testReport("a stopped run shows its last step, and which part of the text is present", stopped, {}, async (other) => {
  assert.equal(await textOf(other, "#state"), "Stopped after step 60 of 200.");
  const count = (number) => number.toLocaleString("en-US");
  const part = `the first ${count(stopped.text.training)} of ${count(stopped.text.training + 13725)} training tokens`;
  assert.ok((await textOf(other, "#text-says")).startsWith(
    `T${part.slice(1)} and all ${count(ids.length - stopped.text.training)} validation tokens, with the losses of the model when the run was stopped.`));
  assert.match(await textOf(other, '#answers [data-key="worst"]'), new RegExp(` on ${part}\\.`));
  await other.focus("#passage");
  await other.keyboard.press("End");
  const first = stopped.text.training;
  await other.evaluate((place) => window.rowgradReport.text.choose(place), first);
  assert.match(await textOf(other, "#text-reading"), /Loss none: nothing comes before it/);
});

testReport("figures are rounded", stopped, {}, async (other) => {
  assert.match(await textOf(other, "#subtitle"), /it took 2 min 0 s, including 0\.521 s for this report$/);
  await other.evaluate(() => window.rowgradReport.text.choose(1));
  const reading = await textOf(other, "#text-reading");
  assert.match(reading, /Loss 10\.0 nats/);
  assert.match(reading, /(.* < 0\.1 %){5}$/);
});

testReport("an interrupted run says what is missing", interrupted, {}, async (other) => {
  assert.equal(await textOf(other, "#state"),
    "Stopped after step 60 of 200. The text and the embeddings are missing because the run was interrupted.");
});

const alike = makeReport({ steps: 60, frames: 3 });
for (const one of alike.tables[0].frames) {
  one.moved = one.rows.map((_, i) => (i === 0 ? 1 : 0.5));
  one.lookups = one.rows.map(() => 5);
  one.steps = one.rows.map(() => 5);
}

testReport("a row that moved most gets a reason only if a figure is high", alike, {}, async (other) => {
  assert.match(await textOf(other, '#answers [data-key="moved"]'), /No single figure explains it\. It had 5 lookups, in 5 steps; the median row had 5, in 5\./);
});

const { format, run, vocabulary } = makeReport({ steps: 60, frames: 3, state: "running" });
const empty = { step: 0, rows: [], lookups: [], steps: [], last: [], norm: [], moved: [] };
const little = {
  format, run, vocabulary,
  tables: [{ ...table, frames: [empty], idle: undefined, decayed: undefined }],
  curves: { step: [1], loss: [6.5], learning_rate: [0.1], speed: [null], rows: [12] },
  evaluations: [], samples: [],
};
for (const [what, data] of [["no", { format, run, vocabulary }], ["hardly any", little]])
  testReport(`a run with ${what} data is shown`, data, {}, async (other) => {
    assert.equal(await other.$(".notice:not(#state)"), null);
  });

testReport("a reload keeps the position, and an address can name a part", unfinished, {}, async (going) => {
  await going.evaluate(() => scrollTo({ top: 2500, behavior: "instant" }));
  await going.reload();
  await going.waitForSelector("#report:not([aria-busy])");
  assert.ok(Math.abs((await going.evaluate(() => scrollY)) - 2500) < 20);
  const address = `${going.url()}#rows`;
  await going.goto("about:blank");
  await going.goto(address);
  await going.waitForSelector("#report:not([aria-busy])");
  const top = await going.$eval("#rows", (part) => part.getBoundingClientRect().top);
  assert.ok(top >= 0 && top < 100, `${top}`);
});

test("the command can be copied", async () => {
  await tab.click("#copy");
  await tab.waitForFunction(() => document.querySelector("#copy").textContent !== "Copy");
  assert.equal(await tab.evaluate(() => getSelection().toString()), report.run.command);
});

testReport("a run without any description is shown", makeOwnReport(), {}, async (other) => {
  assert.equal(await textOf(other, "#title"), "A run");
  assert.match(await textOf(other, "#subtitle"), /^It has taken 1 min 1 s$/);
  assert.equal(await other.$eval("#repeat", (part) => part.hidden), true);
  assert.match(await textOf(other, "#why p"), /steps with a gradient moved it by/);
  assert.equal(await textOf(other, "#vocabulary-title"), "The users as a map");
  assert.match(await textOf(other, '#answers [data-key="untouched"]'), /^Which users never got a gradient\? .* user \d+/);
  assert.match(await textOf(other, "#map-reading"), /^user \d+ row \d+ of users\.weight/);
  assert.equal(await textOf(other, "#speed-title"), "Users per second");
  assert.doesNotMatch(await textOf(other, "main"), /\bnats\b|\btokens?\b/i);
  assert.equal(await other.$("#why code"), null);
});

test("without a memory there are no gates", async () => {
  assert.deepEqual(await tab.$$eval("#shading input", (all) => all.map(({ value }) => value)), ["loss", "rarity"]);
});

const memory = makeMemoryReport();
testReport("the text is shaded by the gate of a memory, and rows are named by n-grams", memory, {}, async (page) => {
  assert.deepEqual(await page.$$eval("#shading input", (all) => all.map(({ value }) => value)), ["loss", "rarity", "Gate"]);
  await page.click("#shading input[value=Gate]");
  const { values } = memory.text.gates[0];
  const known = values.filter((value) => value !== null);
  const [least, greatest] = [Math.min(...known), Math.max(...known)];
  const shades = await page.$$eval("#passage > span", (all) => all.map((span) => span.className.split(" ")[0]));
  shades.forEach((shade, i) => {
    const share = ((values[i] ?? least) - least) / (greatest - least);
    assert.equal(shade, `l${Math.min(Math.floor(8 * share), 7)}`);
  });
  assert.match(await textOf(page, "#shading-legend"), /^0\.3.* of the memory’s output$/);
  await page.evaluate(() => window.rowgradReport.text.choose(12));
  assert.match(await textOf(page, "#text-reading"), new RegExp(`Gate 0\\.${values[12]}`));
  await page.evaluate(() => window.rowgradReport.text.choose(window.rowgradReport.text.spans.length - 1));
  assert.match(await textOf(page, "#text-reading"), /Gate none: the model did not read this token/);
  assert.match(await textOf(page, "#strips"), /N-grams memories\.0\.table\.weight n-gram .+: moved/);
});
