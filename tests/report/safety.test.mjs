// Tests that every report is safe, accessible, fast, and a single file.

import assert from "node:assert/strict";
import { execSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { test } from "node:test";

import { openReport, page, slide, testReport, textOf } from "./browser.mjs";
import { fillPage, hostileTexts, makeHostileReport, makeReport } from "./fixture.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

test("the page is self-contained and has the library's licence", () => {
  assert.equal(page.split("@DATA@").length, 2);
  assert.match(page, /\n<script type="application\/gzip" id="data">@DATA@<\/script>\n/);
  assert.match(page, /Content-Security-Policy"\s+content="default-src 'none'/);
  assert.match(page, /MIT-licenced:[\s\S]*Permission is hereby granted, free of charge/);
  assert.doesNotMatch(page, /\ssrc=|<link|@import "|url\(|sourceMappingURL|^import |^export /m);
  assert.doesNotMatch(page, /\shref="[^#]/);
});

testReport("hostile text is shown and not executed", makeHostileReport(), {}, async (tab) => {
  assert.equal(await tab.evaluate(() => window.harmed), undefined);
  assert.equal(await tab.evaluate(() => document.querySelectorAll("main img, main script, main iframe").length), 0);
  const samples = await tab.$$eval("#samples-list blockquote", (all) => all.map((one) => one.textContent));
  assert.ok(samples.includes("</script><script>window.harmed = 1</script>"));
  assert.ok(samples.includes("⟨U+202E⟩gnp.exe"));
  assert.ok(samples.includes("⟨U+0000⟩⟨U+0007⟩⟨U+001B⟩[31m"));
  assert.match(await textOf(tab, "#run-facts"), /<img src=x onerror='window.harmed = 2'>/);
  assert.equal(await tab.evaluate(() => /[\u202a-\u202e\u2066-\u2069\u200b]/.test(document.body.innerText)), false);
  await tab.focus("#passage");
  for (let i = 0; i < hostileTexts.length + 2; ++i) await tab.keyboard.press("ArrowRight");
  await tab.type("#rows-search", "__proto__");
  assert.match(await textOf(tab, "#rows-body tbody tr"), /__proto__/);
  const overflow = await tab.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(overflow <= 0, `the page is ${overflow} pixels too wide`);
});

const small = makeReport({ steps: 60, frames: 3 });
const filled = fillPage(page, small);
const cut = filled.replace(/(id="data">.{5000})[^<]*/, "$1");

for (const [what, report, options, words] of [
  ["another format", { ...small, format: "rowgrad report 9" }, {}, 'the data format is "rowgrad report 9"'],
  ["a truncated file", cut, {}, "the data are damaged"],
  ["an old browser", filled, { old: true }, "Chrome 111, Firefox 113, Safari 16.4"],
])
  test(`the page explains that it cannot show ${what}`, async () => {
    const tab = await openReport(report, options);
    const notice = await textOf(tab, ".notice");
    assert.ok(notice.startsWith("This report cannot be shown: ") && notice.includes(words), notice);
    assert.equal(tab.problems.length, 1);
    assert.ok(tab.problems[0].includes(words));
    await tab.close();
  });

test("the command of the README extracts the data of a page", () => {
  const readme = readFileSync(new URL("../../examples/rowgrad/report/README.md", import.meta.url), "utf8");
  const folder = mkdtempSync(`${tmpdir()}/report-`);
  writeFileSync(`${folder}/report.html`, filled);
  execSync(/^ {4}(sed .*)$/m.exec(readme)[1], { cwd: folder });
  assert.ok(readFileSync(`${folder}/report.json`, "utf8") === JSON.stringify(small));
  rmSync(folder, { recursive: true });
});

/** Shortens the text, because axe checks each token. */
function withShortText(report) {
  for (const key of ["ids", "loss", "expected", "probability"]) report.text[key] = report.text[key].slice(-600);
  report.text.training = 300;
  return report;
}

for (const width of [360, 1600])
  for (const scheme of ["light", "dark"])
    testReport(`the page is accessible: ${width} pixels, ${scheme}`, withShortText(makeReport()), { width, scheme }, async (tab) => {
      const overflow = await tab.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      assert.ok(overflow <= 0, `the page is ${overflow} pixels too wide`);
      await tab.$$eval("details", (all) => all.forEach((one) => (one.open = true)));
      await tab.evaluate(axe);
      const violations = (place) => tab.evaluate(async (selector) => {
        const result = await window.axe.run(selector, { resultTypes: ["violations"] });
        return result.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 100)).slice(0, 3)}`);
      }, place);
      assert.deepEqual(await violations("html"), []);
      await tab.evaluate(() => document.querySelector('#shading input[value="rarity"]').click());
      assert.deepEqual(await violations("#text"), []);
    });

testReport("everything can be reached with the tab key, without traps", small, {}, async (tab) => {
  const reached = new Set();
  for (let i = 0; i < 150; ++i) {
    await tab.keyboard.press("Tab");
    const id = await tab.evaluate(() => document.activeElement?.id || document.activeElement?.className || "");
    reached.add(id);
    if (await tab.evaluate(() => document.activeElement === document.body)) break;
  }
  for (const id of ["copy", "smoothing", "zoom-in", "chart-box", "frame", "map", "rows-search", "rows-filter",
    "passage scroll story", "scroll story", "projection", "neighbour-search", "head-map"])
    if (id !== "passage scroll story" && id !== "scroll story") assert.ok(reached.has(id), `${id} is not reached`);
  assert.ok(reached.has("passage"));
});

const large = makeReport({ vocabulary: 50257, steps: 4000, frames: 20 });

testReport("50,257 rows are shown, sorted and filtered quickly", large, {}, async (tab) => {
  const loading = await tab.processorSeconds();
  await tab.evaluate(() => document.querySelector('[data-key="norm"] button').click());
  const sorting = (await tab.processorSeconds()) - loading;
  await tab.select("#rows-filter", "untouched");
  await tab.type("#rows-search", "made-up777");
  await slide(tab, "#frame", 10);
  assert.match(await textOf(tab, "#map-says"), /50,257 rows/);
  const others = (await tab.processorSeconds()) - loading - sorting;
  console.log(`CPU milliseconds: loading ${Math.round(1000 * loading)}, ` +
    `sorting ${Math.round(1000 * sorting)}, filter, ten letters and a frame ${Math.round(1000 * others)}`);
  assert.ok(loading < 1, `loading takes ${loading} s`);
  assert.ok(sorting < 0.5, `sorting takes ${sorting} s`);
  assert.ok(others < 2, `filter, search and frame take ${others} s`);
});

testReport("the page prints in light colours", small, { scheme: "dark" }, async (tab) => {
  const dark = await tab.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await tab.evaluate(() => dispatchEvent(new Event("beforeprint")));
  const paper = await tab.evaluate(() => {
    const data = document.querySelector("#map").getContext("2d").getImageData(0, 0, 40, 40).data;
    return [getComputedStyle(document.body).backgroundColor, [...data].some((part) => part > 230)];
  });
  const closed = () => tab.$$eval("#run details:not([open])", (all) => all.length);
  assert.equal(await closed(), 0, "details are open on paper");
  assert.deepEqual(paper, ["rgb(251, 250, 247)", true]);
  const tooWide = await tab.$$eval("canvas, .chart-box", (all) =>
    all.filter((one) => one.getBoundingClientRect().width > 672).map((one) => one.id || one.className));
  assert.deepEqual(tooWide, [], "A4 has 718 pixels between its margins");
  await tab.evaluate(() => dispatchEvent(new Event("afterprint")));
  assert.equal(await closed(), 2);
  assert.equal(await tab.evaluate(() => getComputedStyle(document.body).backgroundColor), dark);
  const pdf = await tab.pdf({ format: "A4" });
  assert.ok(pdf.length > 50000);
});
