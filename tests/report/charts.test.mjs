// Tests of the curves by step and their controls.

import assert from "node:assert/strict";
import { test } from "node:test";

import { placeOn, shareReport, slide, testReport, textOf } from "./browser.mjs";
import { makeReport } from "./fixture.mjs";

const report = makeReport();
const tab = await shareReport(report);

/** Returns the rows of a chart that have a value. */
function drawnValues(id, column) {
  return tab.evaluate((place, k) => {
    const { charts } = window.rowgradReport.loss;
    const { dygraph } = charts.find(({ box }) => box.parentElement.id === place);
    const rows = [];
    for (let row = 0; row < dygraph.numRows(); ++row) {
      const value = dygraph.getValue(row, k);
      if (value !== null) rows.push([dygraph.getValue(row, 0), value]);
    }
    return rows;
  }, id, column);
}

const pairs = (steps, values) => steps.map((step, i) => [step, values[i]]);

test("the curves equal the data", async () => {
  const { curves, norms, evaluations } = report;
  assert.deepEqual(await drawnValues("chart-loss", 1), pairs(curves.step, curves.loss));
  assert.deepEqual(
    await drawnValues("chart-loss", 3),
    pairs(evaluations.map(({ steps }) => steps), evaluations.map((one) => one.validation_loss)),
  );
  assert.deepEqual(await drawnValues("chart-rate", 1), pairs(curves.step, curves.learning_rate));
  assert.deepEqual(await drawnValues("chart-speed", 1), pairs(curves.step, curves.speed));
  assert.deepEqual(await drawnValues("chart-norm", 1), pairs(norms.step, norms.norm));
  assert.deepEqual(await drawnValues("chart-norm", 2), pairs(norms.step, norms.clipped));
  assert.deepEqual(await drawnValues("chart-rows", 1), pairs(curves.step, curves.rows));
});

test("the unigram and uniform losses are straight lines", async () => {
  for (const [column, level] of [[4, report.baselines.unigram], [5, report.baselines.uniform]])
    assert.ok((await drawnValues("chart-loss", column)).every(([, value]) => value === level));
});

test("curves are drawn at the values of the data", async () => {
  const missing = await tab.evaluate(() => {
    const result = [];
    for (const { dygraph, box, series } of window.rowgradReport.loss.charts) {
      const context = box.querySelector("canvas").getContext("2d");
      series.forEach(({ name, dashes }, k) => {
        for (let row = 30; !dashes && row < dygraph.numRows() - 30; row += 30) {
          const value = dygraph.getValue(row, k + 1);
          if (value === null) continue;
          const [x, y] = [dygraph.toDomXCoord(dygraph.getValue(row, 0)), dygraph.toDomYCoord(value)];
          const around = context.getImageData((x - 2) * devicePixelRatio, (y - 2) * devicePixelRatio,
            5 * devicePixelRatio, 5 * devicePixelRatio).data;
          if (!around.some((part, i) => i % 4 === 3 && part > 100)) result.push(`${name} at row ${row}`);
        }
      });
    }
    return result;
  });
  assert.deepEqual(missing, []);
});

test("the pointer moves the cursors of all charts and shows their values", async () => {
  await tab.mouse.move(...(await placeOn(tab, "#chart-loss .chart-box", 600, 150)));
  const step = Number(await textOf(tab, "#cursor-step"));
  assert.ok(step > 1 && step < 600);
  const cursors = await tab.evaluate(() => window.rowgradReport.loss.charts.map(({ dygraph, cursor }) =>
    Math.round(dygraph.toDataXCoord(parseFloat(cursor.style.left)))));
  assert.deepEqual(cursors, [step, step, step, step, step]);
  const loss = report.curves.loss[report.curves.step.indexOf(step)];
  assert.match(await textOf(tab, "#chart-loss .legend"), new RegExp(`each batch ${loss.toPrecision(3)}`));
  const { steps, validation_loss: validation } = report.evaluations.findLast((one) => one.steps <= step);
  assert.match(await textOf(tab, "#chart-loss .legend"), new RegExp(`validation ${validation.toPrecision(3)} at step ${steps}`));
  assert.match(await textOf(tab, "#chart-speed .legend"),
    new RegExp(report.curves.speed[step - 1].toLocaleString("en-US")));
});

test("dragging zooms all charts, and a button shows the whole run again", async () => {
  const ranges = () => tab.evaluate(() =>
    window.rowgradReport.loss.charts.map(({ dygraph }) => dygraph.xAxisRange().map(Math.round).join()));
  const whole = await ranges();
  const [x, y] = await placeOn(tab, "#chart-rate .chart-box", 150, 100);
  await tab.mouse.move(x, y);
  await tab.mouse.down();
  await tab.mouse.move(x + 120, y, { steps: 5 });
  await tab.mouse.up();
  const zoomed = await ranges();
  assert.equal(new Set(zoomed).size, 1);
  assert.notEqual(zoomed[0], whole[0]);
  await tab.click("#zoom-all");
  assert.deepEqual(await ranges(), whole);
});

test("a chart can be read and zoomed with the keyboard", async () => {
  await tab.focus("#chart-loss .chart-box");
  await tab.keyboard.press("End");
  await tab.keyboard.press("ArrowLeft");
  assert.match(await textOf(tab, "#chart-says"), /^Step 599: training, smoothed 1\.\d+, validation 2\.\d+ at step 560$/);
  await tab.keyboard.press("+");
  const [first, last] = await tab.evaluate(() => window.rowgradReport.loss.range());
  assert.ok(last - first < 350);
  await tab.keyboard.press("0");
  assert.match(await textOf(tab, "#chart-says"), /^Step 599/);
});

test("smoothing averages, and does nothing at 0", async () => {
  await slide(tab, "#smoothing", 0);
  assert.deepEqual(await drawnValues("chart-loss", 2), pairs(report.curves.step, report.curves.loss));
  await slide(tab, "#smoothing", 100);
  const roughness = (values) => values.slice(1).reduce((sum, [, value], i) => sum + Math.abs(value - values[i][1]), 0);
  assert.ok(roughness(await drawnValues("chart-loss", 2)) < 0.2 * roughness(await drawnValues("chart-loss", 1)));
  assert.match(await textOf(tab, "#smoothing-says"), /means over 201 steps/);
});

const broken = makeReport({ steps: 60, frames: 3, state: "running" });
broken.curves.loss[20] = null;

testReport("a curve has a gap at a loss that is not finite", broken, {}, async (other) => {
  const values = await other.evaluate(() => window.rowgradReport.loss.charts[0].series[0].values);
  assert.equal(values.filter((value) => value === null).length, 2); // this step, and step 0, which only has an evaluation
});

const tied = makeReport({ steps: 60, frames: 3, table: "dense" });

testReport("with dense gradients, the chart of rows counts distinct rows looked up", tied, {}, async (other) => {
  assert.equal(await textOf(other, "#rows-by-step"), "Distinct rows looked up");
  assert.match(await textOf(other, "#chart-rows .legend"), new RegExp(`distinct rows ${tied.curves.rows.at(-1)}$`));
});
