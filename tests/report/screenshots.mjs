// Takes screenshots of a report for READMEs:
//   node screenshots.mjs REPORT.html FOLDER
// wide.png shows the top, the loss and the vocabulary; narrow.png shows the vocabulary and the text on
// a small screen in the dark theme. Parts between them are hidden.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [report, folder] = process.argv.slice(2);
if (!folder) throw new Error("Usage: node screenshots.mjs REPORT.html FOLDER");

const pictures = [
  {
    name: "wide.png", width: 1600, scale: 1, scheme: "light", tallest: 1800,
    leftOut: "nav, #run, #loss .charts, #loss > p, #loss .toolbar, #map-says, #strips, #vocabulary ~ *",
    first: "header", last: "#vocabulary", padding: 32,
    style: "body { max-width: none; padding: 0 4rem; } header { padding-top: 2.5rem; } section { padding-top: 1.5rem; } " +
      "#chart-loss .chart-box { height: 18rem; } #vocabulary { padding-bottom: 1rem; }",
  },
  {
    name: "narrow.png", width: 360, scale: 2, scheme: "dark", tallest: 1300,
    leftOut: "nav, #strips, #map-says, #rows, #vocabulary .reading, #text-says, #text .reading, #text h3",
    first: "#vocabulary", last: "#shading-legend", padding: 12, style: "#passage { height: 20rem; }",
  },
];

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--force-color-profile=srgb"],
});
mkdirSync(folder, { recursive: true });
for (const { name, width, scale, scheme, tallest, leftOut, first, last, padding, style } of pictures) {
  const tab = await browser.newPage();
  await tab.setViewport({ width, height: 900, deviceScaleFactor: scale });
  await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await tab.goto(pathToFileURL(report).href);
  await tab.waitForSelector("#report:not([aria-busy])");
  await tab.addStyleTag({ content: `${leftOut} { display: none !important; } ${style}` });
  await tab.evaluate(() => new Promise((done) => setTimeout(done, 300))); // charts adapt to their width
  const edge = (selector, side) => tab.$eval(selector, (part, key) => part.getBoundingClientRect()[key] + scrollY, side);
  const [top, bottom] = [await edge(first, "top"), await edge(last, "bottom")];
  await tab.screenshot({
    path: join(folder, name), captureBeyondViewport: true,
    clip: { x: 0, y: top, width, height: Math.min(bottom + padding - top, tallest) },
  });
}
await browser.close();
