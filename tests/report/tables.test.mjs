// Tests of the map of the vocabulary, the strips, and the table of rows.

import assert from "node:assert/strict";
import { test } from "node:test";

import { pixelOf, placeOn, shareReport, slide, testReport, textOf } from "./browser.mjs";
import { makeReport, makeResumedReport, windowTable } from "./fixture.mjs";

const report = makeReport();
const [table] = report.tables;
const frame = table.frames.at(-1);
const touched = new Set(frame.rows);
const untouched = report.vocabulary.map((_, id) => id).filter((id) => !touched.has(id));
const columns = Math.ceil(Math.sqrt(table.rows));
const tab = await shareReport(report);

/** Returns the middle of a row's cell in pixels of the canvas. */
async function cellMiddle(row) {
  const size = (await tab.$eval("#map", (canvas) => canvas.width)) / columns;
  return [((row % columns) + 0.5) * size, (Math.floor(row / columns) + 0.5) * size];
}

async function cellColour(row) {
  return (await pixelOf(tab, "#map", ...(await cellMiddle(row)))).slice(0, 3);
}

async function sandCells() {
  return tab.evaluate(() => {
    const { main } = window.rowgradReport.vocabulary;
    const canvas = document.querySelector("#map");
    const size = canvas.width / main.map.options.columns;
    const context = canvas.getContext("2d");
    const sand = [0xf1, 0xcd, 0x97].join();
    const found = [];
    for (let row = 0; row < main.table.rows; ++row) {
      const [x, y] = [(row % main.map.options.columns) + 0.5, Math.floor(row / main.map.options.columns) + 0.5];
      const [r, g, b] = context.getImageData(Math.floor(x * size), Math.floor(y * size), 1, 1).data;
      if ([r, g, b].join() === sand) found.push(row);
    }
    return found;
  });
}

test("the cells of rows without a gradient stand out, and no others", async () => {
  assert.ok(untouched.length > 10);
  assert.deepEqual(await sandCells(), untouched);
  assert.match(await textOf(tab, "#map-says"), new RegExp(`${frame.rows.length} .* the other ${untouched.length} are`));
});

test("a row that moved more is darker", async () => {
  const brightness = async (row) => (await cellColour(row)).reduce((sum, part) => sum + part);
  const order = [...frame.rows].sort((a, b) => frame.moved[frame.rows.indexOf(a)] - frame.moved[frame.rows.indexOf(b)]);
  assert.ok((await brightness(order[0])) > (await brightness(order[order.length >> 1])));
  assert.ok((await brightness(order[order.length >> 1])) > (await brightness(order.at(-1))));
});

test("the pointer names a row's token and figures", async () => {
  const row = frame.rows[100];
  await tab.mouse.move(...(await placeOn(tab, "#map", ...(await cellMiddle(row)))));
  const reading = await textOf(tab, "#map-reading");
  assert.ok(reading.startsWith(report.vocabulary[row].replaceAll(" ", "␣").replaceAll("\n", "⏎")), reading);
  assert.match(reading, new RegExp(`row ${row} of token.weight`));
  assert.match(reading, new RegExp(`Lookups ${frame.lookups[100].toLocaleString("en-US")} Steps ${frame.steps[100]} `));
  await tab.mouse.move(...(await placeOn(tab, "#map", ...(await cellMiddle(untouched[3])))));
  assert.match(await textOf(tab, "#map-reading"), /never had a gradient\. Weight decay has shrunk rows without a gradient to 94\.2 %/);
});

test("arrow keys move over the map", async () => {
  await tab.focus("#map");
  await tab.keyboard.press("Home");
  await tab.keyboard.press("ArrowRight");
  await tab.keyboard.press("ArrowDown");
  assert.match(await textOf(tab, "#map-reading"), new RegExp(`row ${columns + 1} of`));
  assert.equal(await tab.evaluate(() => window.rowgradReport.tokens.id), columns + 1);
});

test("the slider shows earlier frames, and the radio buttons other figures", async () => {
  await slide(tab, "#frame", 0);
  const first = new Set(table.frames[0].rows);
  assert.deepEqual(await sandCells(), report.vocabulary.map((_, id) => id).filter((id) => !first.has(id)));
  await slide(tab, "#frame", table.frames.length - 1);
  const before = await cellColour(frame.rows[0]);
  await tab.focus("#measure input:checked");
  await tab.keyboard.press("ArrowRight");
  assert.match(await textOf(tab, "#map-says"), /how often training batches looked the row up/);
  assert.notDeepEqual(await cellColour(frame.rows[0]), before);
});

for (const [positions, names, text] of [
  ["t5", ["t5_table"], "distance 59 to 66: never had a gradient."],
  ["shaw", ["shaw_keys", "shaw_values"], "distance −10: never had a gradient."],
])
  testReport(`the distances of ${positions} are named in strips and table`, makeReport({ steps: 60, frames: 3, positions }), {}, async (other) => {
    const titles = await other.$$eval("#strips h3", (all) => all.map((one) => one.textContent));
    assert.deepEqual(titles, names.map((one) => `Distances ${one}`));
    assert.match(await textOf(other, "#strips .reading"), positions === "t5" ? /^distance 0: moved/ : /^distance 16 and more: moved/);
    await other.focus("#strips canvas");
    for (let i = 0; i < 26; ++i) await other.keyboard.press("ArrowRight");
    assert.equal(await textOf(other, "#strips .reading"), text);
    await other.select("#rows-table", String(names.length)); // the last one
    await other.type("#rows-search", "and more");
    const found = await other.$$eval("#rows-body tbody tr", (lines) => lines.map((line) => line.children[1].textContent));
    assert.deepEqual(found, [positions === "t5" ? "distance 113 and more" : "distance 16 and more"]);
    await slide(other, "#frame", 0);
    assert.match(await textOf(other, "#strips .reading"), /never had a gradient\.$/);
  });

test("positions have a strip with the same figures", async () => {
  await tab.focus("#strips canvas");
  await tab.keyboard.press("End");
  assert.equal(await textOf(tab, "#strips .reading"), "position 63: never had a gradient.");
  await tab.keyboard.press("Home");
  assert.match(await textOf(tab, "#strips .reading"), /^position 0: moved .*, lookups 4,800, steps 600,/);
});

const shownIds = () => tab.$$eval("#rows-body tbody tr", (lines) => lines.map((line) => Number(line.dataset.row)));

test("the table is sorted by what is clicked, in both directions", async () => {
  const byLookups = [...frame.rows.keys()].sort((a, b) => frame.lookups[b] - frame.lookups[a] || frame.rows[a] - frame.rows[b]);
  await tab.click('[data-key="lookups"] button');
  assert.deepEqual(await shownIds(), byLookups.slice(0, 25).map((place) => frame.rows[place]));
  assert.equal(await tab.$eval('[data-key="lookups"]', (head) => head.ariaSort), "descending");
  await tab.keyboard.press("Enter"); // the button keeps the focus
  assert.equal(frame.lookups[frame.rows.indexOf((await shownIds())[0])], Math.min(...frame.lookups));
});

test("filters find the rows that they name", async () => {
  const filtered = async (filter) => {
    await tab.select("#rows-filter", filter);
    return tab.evaluate(() => window.rowgradReport.rows.list.found.toSorted((a, b) => a - b));
  };
  const sorted = (ids) => [...ids].sort((a, b) => a - b);
  assert.deepEqual(await filtered("untouched"), untouched);
  assert.match(await textOf(tab, "#rows-count"), new RegExp(`^${untouched.length} of ${table.rows} rows$`));
  assert.match(await textOf(tab, "#rows-body tbody tr"), /94\.2 % left$/);
  assert.deepEqual(await filtered("touched"), sorted(frame.rows));
  assert.ok(table.idle.rows.length > 0);
  assert.deepEqual(await filtered("idle"), sorted([...table.idle.rows, ...untouched]));
  assert.deepEqual(await filtered("momentum"), sorted(table.idle.rows));
  const first = await tab.$$eval("#rows-body tbody tr:first-child td", (cells) => cells.map((cell) => cell.textContent));
  const place = table.idle.rows.indexOf(Number(first[0]));
  const shown = first.slice(-2).map((text) => Number(text.replace("−", "-")));
  assert.deepEqual(shown, [table.idle.momentum[place], table.idle.decay[place]]);
  assert.deepEqual(await filtered("decay"), sorted([...table.idle.rows, ...untouched]));
  await filtered("all");
});

test("the search finds tokens and ids", async () => {
  await tab.type("#rows-search", "clock");
  const found = await tab.evaluate(() => window.rowgradReport.rows.list.found);
  assert.ok(found.length > 0 && found.every((id) => report.vocabulary[id].toLowerCase().includes("clock")));
  await tab.$eval("#rows-search", (input) => (input.value = ""));
  await tab.type("#rows-search", "123");
  assert.deepEqual(await tab.evaluate(() => window.rowgradReport.rows.list.found), [123]);
  await tab.$eval("#rows-search", (input) => (input.value = ""));
  await tab.type("#rows-search", " ");
});

test("the table has pages, and a selected token is shown in the other parts", async () => {
  const first = await shownIds();
  await tab.evaluate(() => [...document.querySelectorAll("#rows-pages button")].find((one) => one.textContent === "Next").focus());
  await tab.keyboard.press("Enter");
  assert.match(await textOf(tab, "#rows-pages"), /page 2 of 35/);
  const second = await shownIds();
  assert.equal(second.length, 25);
  assert.ok(second.every((id) => !first.includes(id)));
  assert.equal(await tab.evaluate(() => document.activeElement.textContent), "Next");
  await tab.click("#rows-body tbody button");
  assert.equal(await tab.evaluate(() => window.rowgradReport.tokens.id), second[0]);
  assert.match(await textOf(tab, "#map-reading"), new RegExp(`row ${second[0]} of`));
});

test("a selected row shows which steps and which text moved it", async () => {
  const place = 30;
  const row = table.reasons.rows[place];
  await tab.evaluate((id) => window.rowgradReport.tokens.choose(id), row);
  const name = report.vocabulary[row].replaceAll(" ", "␣").replaceAll("\n", "⏎");
  assert.equal(await textOf(tab, "#why h3"), `Why ${name} moved`);
  const frameAt = frame.rows.indexOf(row);
  assert.match(await textOf(tab, "#why p"), new RegExp(`${frame.steps[frameAt]} steps? with a gradient moved it by .* in total`));
  const lines = await tab.$$eval("#why tbody tr", (all) => all.map((line) => [...line.children].map((cell) => cell.textContent)));
  const steps = table.reasons.steps[place];
  assert.deepEqual(lines.map(([step]) => step), steps.map(({ step }) => String(step)));
  assert.equal(lines[0][4], `${((100 * steps[0].moved) / table.reasons.path[place]).toFixed(1).replace(/\.0$/, "")}\u00a0%`);
  const shown = ({ text }) => text.map((id) => report.vocabulary[id].replace(/\n/g, "⏎")).join("");
  assert.deepEqual(lines.map((line) => line[5]), steps.map(shown));
  assert.equal(await tab.$eval("#why mark", (mark) => mark.textContent), report.vocabulary[row].replace(/\n/g, "⏎"));
  assert.match(await textOf(tab, "#why code"), new RegExp(`^rowgrad rows CHECKPOINT --explain ${row}$`));
});

test("a row of a position table also shows its steps, without text", async () => {
  await tab.select("#rows-table", "1");
  await tab.click("#rows-body tbody button");
  assert.match(await textOf(tab, "#why h3"), /^Why position \d+ moved$/);
  assert.match(await textOf(tab, "#why tbody"), /^\d+ 8 0\.400 0\.500 25 %$/);
  assert.match(await textOf(tab, "#why code"), / --table position\.weight$/);
  await tab.evaluate(() => window.rowgradReport.tokens.choose(1)); // a token, not a position
  assert.equal(await tab.$$eval("#rows-body .chosen", (all) => all.length), 0);
  await tab.select("#rows-table", "0");
});

test("a row that never had a gradient says so", async () => {
  await tab.evaluate((id) => window.rowgradReport.tokens.choose(id), untouched[2]);
  assert.match(await textOf(tab, "#why p"), /^Up to the last frame: never had a gradient\. Weight decay/);
  assert.equal(await tab.$("#why tbody"), null);
});

const tied = makeReport({ steps: 60, frames: 3, state: "running", table: "dense" });
const [{ frames: [, , tiedFrame] }] = tied.tables;
const neverLookedUp = tied.vocabulary.map((_, id) => id).filter((id) => !tiedFrame.rows.includes(id));

testReport("a table with dense gradients distinguishes rows that were looked up", tied, {}, async (other) => {
  assert.match(await textOf(other, '#answers [data-key="untouched"]'), /None.*tokens never occurred in a batch/);
  assert.match(await textOf(other, "#map-legend"), /never looked up/);
  await other.select("#rows-table", "1");
  await other.click('#answers [data-key="untouched"] a');
  const names = await other.$$eval("#rows-filter option", (options) => options.map((option) => option.textContent));
  assert.deepEqual(names, ["all rows", "rows that were looked up", "rows never looked up"]);
  assert.deepEqual(await other.evaluate(() => window.rowgradReport.rows.list.found), neverLookedUp);
  assert.match(await textOf(other, "#rows-says"), /All rows have dense gradients.* tracked from its first lookup/);
  assert.match(await textOf(other, "#rows-body tbody tr"), /not tracked – – not tracked –$/);
  assert.equal(await other.$('[data-key="momentum"]'), null);
});

const long = makeReport({ steps: 60, frames: 3 });
const many = { ...windowTable("row", "many.weight", 131072, 131072, [60]), reasons: undefined };
many.frames[0].moved[777] = 9;
long.tables.push(many);

testReport("a table of 131,072 tracked rows is shown, and the row that moved most is named", long, {}, async (other) => {
  assert.equal(await other.$(".notice:not(#state)"), null);
  assert.match(await textOf(other, "#strips > p:last-child"), /^row 777: moved 9\.00,/);
});

const sparse = makeReport({ steps: 60, frames: 4 });
const [{ frames: all }] = sparse.tables;
sparse.tables[0].frames = all.map((one, i) => {
  const before = i > 0 ? all[i - 1] : { rows: [], last: [] };
  const changed = one.rows.map((row, place) => before.rows.indexOf(row) < 0 || one.last[place] > before.step);
  const columns = ["rows", "lookups", "steps", "last", "norm", "moved"];
  return { step: one.step, ...Object.fromEntries(columns.map((key) => [key, one[key].filter((_, place) => changed[place])])) };
});

testReport("frames that only list changed rows are completed", sparse, {}, async (other) => {
  const shown = await other.evaluate(() => window.rowgradReport.report.tables[0].frames);
  assert.deepEqual(shown.map(({ rows }) => rows.length), all.map(({ rows }) => rows.length));
  assert.deepEqual(shown.map(({ lookups }) => lookups), all.map(({ lookups }) => lookups));
  assert.ok(sparse.tables[0].frames[3].rows.length < all[3].rows.length);
});

const coupled = makeReport({ steps: 60, frames: 3, table: "coupled" });

testReport("with decay in the gradient, no row is shown as unmoved", coupled, {}, async (other) => {
  const words = /part of the gradient here: it also moves rows without a gradient of their own, by an amount that is not tracked/;
  assert.match(await textOf(other, '#answers [data-key="untouched"]'), words);
  assert.match(await textOf(other, "#map-says"), words);
  assert.match(await textOf(other, "#rows-says"), words);
  await other.click('#answers [data-key="untouched"] a');
  assert.match(await textOf(other, "#rows-body tbody tr"), /not tracked – – – – not tracked$/);
  await other.click("#rows-body tbody button");
  assert.match(await textOf(other, "#map-reading"), words);
  await other.select("#rows-filter", "idle");
  const [one] = coupled.tables;
  const count = one.rows - one.frames.at(-1).rows.length + one.idle.rows.length;
  assert.match(await textOf(other, "#rows-count"), new RegExp(`^${count} of`));
  assert.equal(await textOf(other, '[data-key="momentum"]'), "By momentum and decay");
});

testReport("a resumed run says from which step it is counted", makeResumedReport(95, { steps: 60, frames: 3 }), {}, async (other) => {
  assert.equal(await textOf(other, "#state"),
    "The run was resumed after 95 steps: lookups, gradients and movement are counted from there.");
  assert.match(await textOf(other, "#run-facts"), /Steps 155, the first 95 before this report/);
  assert.match(await textOf(other, '#answers [data-key="untouched"]'), /^Which tokens never got a gradient since step 95\?.*No batch contained them since step 95\./);
  assert.match(await textOf(other, '#answers [data-key="moved"]'), /has moved by .* since step 95\./);
  assert.match(await textOf(other, "#map-says"), /have had a gradient since step 95;/);
  assert.match(await textOf(other, "#map-legend"), /never had a gradient since step 95/);
  await other.click('#shading input[value="rarity"] + span');
  const said = await other.evaluate(() => {
    for (const text of document.querySelectorAll("#passage, #samples, tbody, .token")) text.remove();
    return document.body.innerText;
  });
  const claims = said.match(/[^.?;\n]*\bnever\b[^.?;\n]*/g);
  assert.ok(claims.length > 3);
  assert.deepEqual(claims.filter((words) => !/since step 95|never clipped/.test(words)), []);
});
