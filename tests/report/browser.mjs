// Opens generated reports in a headless Chromium without network, and records problems.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { after, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

import { fillPage } from "./fixture.mjs";

const source = fileURLToPath(new URL("../../examples/rowgrad/report/page/", import.meta.url));
const out = fileURLToPath(new URL("out/", import.meta.url));
const dygraphs = process.env.DYGRAPHS ?? "/usr/share/javascript/dygraphs";
let opened = 0;

/** The browser for all tests of a file. */
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--force-color-profile=srgb"],
});
const shared = [];
after(async () => {
  for (const tab of shared) await closeQuietly(tab);
  await browser.close();
});

function bundlePage() {
  mkdirSync(out, { recursive: true });
  const file = `${out}page-${process.pid}.html`;
  execFileSync("cmake", [`-DOUT=${file}`, `-DDYGRAPHS=${dygraphs}`, "-P", `${source}../bundle.cmake`]);
  return readFileSync(file, "utf8");
}

/** The page that is embedded in the programs, without data. */
export const page = bundlePage();

/**
 * Opens a tab with the report. It records messages, errors, dialogs and requests in `tab.problems`.
 * `tab.processorSeconds()` returns its CPU time, which does not depend on other programs. `old`
 * removes DecompressionStream; `touch` emulates a touch screen.
 */
export async function openReport(report, { width = 1600, scheme = "light", touch = false, old = false } = {}) {
  const file = `${out}report-${process.pid}-${++opened}.html`;
  writeFileSync(file, typeof report === "string" ? report : fillPage(page, report));
  const tab = await browser.newPage();
  tab.problems = [];
  const address = pathToFileURL(file).href;
  await tab.setRequestInterception(true);
  tab.on("request", (request) => {
    if ([address, "about:blank"].includes(request.url().split("#")[0])) return request.continue();
    tab.problems.push(`request of ${request.url()}`);
    return request.abort();
  });
  tab.on("console", (message) => {
    const isOfTests = message.text().includes("readback operations using getImageData");
    if (!isOfTests) tab.problems.push(`console: ${message.text()}`);
  });
  tab.on("pageerror", (error) => tab.problems.push(`error: ${error}`));
  tab.on("dialog", (dialog) => {
    tab.problems.push(`dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  await tab.setViewport({ width, height: 900, hasTouch: touch, isMobile: touch });
  await tab.emulateMediaFeatures([
    { name: "prefers-color-scheme", value: scheme },
    { name: "prefers-reduced-motion", value: "reduce" },
  ]);
  const session = await tab.createCDPSession();
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  tab.processorSeconds = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return metrics.find((metric) => metric.name === "TaskDuration").value;
  };
  if (old) await tab.evaluateOnNewDocument(() => delete window.DecompressionStream);
  await tab.goto(address);
  await tab.waitForSelector("#report:not([aria-busy])");
  return tab;
}

/** Closes a tab. Fails if it has problems. */
async function closeQuietly(tab) {
  assert.deepEqual(tab.problems, []);
  await tab.close();
}

/** Opens a tab for all tests of a file. Fails if it has problems at the end. */
export async function shareReport(report, options) {
  const tab = await openReport(report, options);
  shared.push(tab);
  return tab;
}

/** Runs a test with its own report. Fails if the report has problems. */
export function testReport(name, report, options, look) {
  test(name, async () => {
    const tab = await openReport(report, options);
    await look(tab);
    await closeQuietly(tab);
  });
}

/** @returns {Promise<string>} the visible text of an element */
export function textOf(tab, selector) {
  return tab.$eval(selector, (element) => element.innerText.replace(/\s+/g, " ").trim());
}

/** Moves a slider and sends its event. */
export function slide(tab, selector, value) {
  return tab.$eval(selector, (input, to) => {
    input.value = to;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  }, String(value));
}

/** Scrolls to an element, and returns the window position of the point (x, y) of the element. */
export async function placeOn(tab, selector, x, y) {
  return tab.$eval(selector, (element, dx, dy) => {
    element.scrollIntoView({ block: "center" });
    const box = element.getBoundingClientRect();
    return [box.left + dx, box.top + dy];
  }, x, y);
}

/** Returns the colour of a pixel of a canvas: [red, green, blue, opacity]. */
export function pixelOf(tab, selector, x, y) {
  return tab.$eval(selector, (canvas, px, py) =>
    [...canvas.getContext("2d").getImageData(px, py, 1, 1).data], Math.floor(x), Math.floor(y));
}
