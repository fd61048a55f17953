// Tests of touch on a small screen.

import assert from "node:assert/strict";
import { test } from "node:test";

import { placeOn, shareReport, textOf } from "./browser.mjs";
import { makeReport } from "./fixture.mjs";

const report = makeReport();
const [table] = report.tables;
const tab = await shareReport(report, { width: 360, touch: true });
const session = await tab.createCDPSession();

const chosen = () => tab.evaluate(() => window.rowgradReport.tokens.id);
const scrolled = () => tab.evaluate(() => window.scrollY);
const range = () => tab.evaluate(() => window.rowgradReport.loss.range());
const cursor = () => tab.evaluate(() => window.rowgradReport.loss.row);

/** Moves fingers between window positions, in eight steps. */
async function drag(from, to) {
  const points = (share) => from.map(([x, y], i) => ({ x: x + share * (to[i][0] - x), y: y + share * (to[i][1] - y) }));
  const send = (type, touchPoints) => session.send("Input.dispatchTouchEvent", { type, touchPoints });
  await send("touchStart", points(0));
  for (let i = 1; i <= 8; ++i) await send("touchMove", points(i / 8));
  await send("touchEnd", []);
  await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

test("a tap on the map names the row", async () => {
  const row = table.frames.at(-1).rows[30];
  const [x, y] = await tab.evaluate((cell) => {
    const { map } = window.rowgradReport.vocabulary.main;
    const size = parseFloat(map.canvas.style.width) / map.options.columns;
    return [((cell % map.options.columns) + 0.5) * size, (Math.floor(cell / map.options.columns) + 0.5) * size];
  }, row);
  await tab.touchscreen.tap(...(await placeOn(tab, "#map", x, y)));
  assert.equal(await chosen(), row);
  assert.match(await textOf(tab, "#map-reading"), new RegExp(`row ${row} of token.weight`));
});

test("a tap on a token of the text says what was expected", async () => {
  await tab.touchscreen.tap(...(await placeOn(tab, "#passage > span:nth-of-type(13)", 6, 10)));
  assert.match(await textOf(tab, "#text-reading"), /token 13 of/);
  assert.equal(await chosen(), report.text.ids[12]);
});

test("a tap on a point names its token", async () => {
  const [x, y] = await tab.evaluate(() => window.rowgradReport.embeddings.projection.pixel(2));
  await tab.touchscreen.tap(...(await placeOn(tab, "#projection", x, y)));
  const off = await tab.evaluate(() => {
    const { projection } = window.rowgradReport.embeddings;
    return Math.hypot(...projection.pixel(projection.marked).map((at, i) => at - projection.pixel(2)[i]));
  });
  assert.ok(off < 4, `${off} pixels off`);
});

test("a tap on a chart moves the cursors there", async () => {
  const [x, y] = await placeOn(tab, "#chart-loss .chart-box", 200, 100);
  await tab.touchscreen.tap(x, y);
  const there = await tab.evaluate(() => {
    const { charts, row, steps } = window.rowgradReport.loss;
    return charts[0].dygraph.toDomXCoord(steps[row]);
  });
  assert.ok(Math.abs(there - 200) < 3, `${there}`);
});

test("a vertical swipe scrolls the page on charts, maps and points", async () => {
  for (const selector of ["#chart-loss .chart-box", "#map", "#projection", "#head-map", "#passage"]) {
    const [x, y] = await placeOn(tab, selector, 150, 150);
    const [before, row, id] = [await scrolled(), await cursor(), await chosen()];
    const passage = () => tab.$eval("#passage", (box) => box.scrollTop);
    const inside = await passage();
    await drag([[x, y]], [[x + 2, y - 120]]);
    assert.ok((await scrolled()) > before + 60 || (await passage()) > inside + 60, `${selector} prevents scrolling`);
    assert.deepEqual([await cursor(), await chosen()], [row, id], `a vertical swipe on ${selector} moved its selection`);
  }
});

test("a horizontal swipe moves the cursor of charts and selects cells of maps", async () => {
  const [x, y] = await placeOn(tab, "#chart-rate .chart-box", 80, 100);
  const before = await cursor();
  await drag([[x, y]], [[x + 150, y]]);
  assert.notEqual(await cursor(), before);
  const id = await chosen();
  const [left, top] = await placeOn(tab, "#map", 40, 100);
  await drag([[left, top]], [[left + 150, top]]);
  assert.notEqual(await chosen(), id);
});

test("two fingers zoom all charts, and the steps stay under them", async () => {
  const whole = await range();
  const [x, y] = await placeOn(tab, "#chart-loss .chart-box", 0, 100);
  const under = (at) => tab.evaluate((place) => window.rowgradReport.loss.charts[0].dygraph.toDataXCoord(place), at);
  const held = [await under(150), await under(200)];
  await drag([[x + 150, y], [x + 200, y]], [[x + 100, y], [x + 250, y]]);
  const [first, last] = await range();
  assert.ok(Math.abs((last - first) / (whole[1] - whole[0]) - 1 / 3) < 0.02, `${first} to ${last}`);
  for (const [i, at] of [100, 250].entries()) assert.ok(Math.abs((await under(at)) - held[i]) < 3);
  assert.equal(await tab.evaluate(() => window.visualViewport.scale), 1);
  await drag([[x + 80, y], [x + 280, y]], [[x + 160, y], [x + 190, y]]);
  assert.deepEqual(await range(), whole);
});
