// Opens made-up reports in a headless Chromium, without a network, and watches what they do.

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

/** One browser for all tests of a file. */
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

/** The page as the programs get it, with a place for the data. */
export const page = bundlePage();

/**
 * A tab with the report, which notes messages, errors, dialogs and requests in `tab.problems`. The time
 * that it has taken on the processor, `tab.processorSeconds()`, does not depend on what else is running.
 * `old` leaves the browser without DecompressionStream, `touch` gives it a screen to touch.
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

/** Nothing but the page was asked for, and it had nothing to say. */
async function closeQuietly(tab) {
  assert.deepEqual(tab.problems, []);
  await tab.close();
}

/** A tab for all tests of a file, which must have been quiet in the end. */
export async function shareReport(report, options) {
  const tab = await openReport(report, options);
  shared.push(tab);
  return tab;
}

/** A test with a report of its own, which must be quiet. */
export function testReport(name, report, options, look) {
  test(name, async () => {
    const tab = await openReport(report, options);
    await look(tab);
    await closeQuietly(tab);
  });
}

/** @returns {Promise<string>} what an element shows */
export function textOf(tab, selector) {
  return tab.$eval(selector, (element) => element.innerText.replace(/\s+/g, " ").trim());
}

/** Moves a slider as a hand does. */
export function slide(tab, selector, value) {
  return tab.$eval(selector, (input, to) => {
    input.value = to;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  }, String(value));
}

/** Where a place of an element is in the window, after it has been scrolled to the middle. */
export async function placeOn(tab, selector, x, y) {
  return tab.$eval(selector, (element, dx, dy) => {
    element.scrollIntoView({ block: "center" });
    const box = element.getBoundingClientRect();
    return [box.left + dx, box.top + dy];
  }, x, y);
}

/** The colour of a pixel of a canvas: [red, green, blue, opacity]. */
export function pixelOf(tab, selector, x, y) {
  return tab.$eval(selector, (canvas, px, py) =>
    [...canvas.getContext("2d").getImageData(px, py, 1, 1).data], Math.floor(x), Math.floor(y));
}
