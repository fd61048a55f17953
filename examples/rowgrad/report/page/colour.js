// Reads the colours of canvases from the style sheet (light or dark), and redraws when they change.

/** @import { Colour } from "./types" */

/** @type {Map<string, Colour>} */
const coloursRead = new Map();
/** @type {Map<string, Colour[]>} */
const scalesRead = new Map();
/** @type {(() => void)[]} */
const redraws = [];

/**
 * @param {string} name of a colour of the style sheet, such as "--ink"
 * @returns {Colour}
 */
export function cssColour(name) {
  const known = coloursRead.get(name);
  if (known) return known;
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const parts = getComputedStyle(probe).color.match(/[\d.]+/g) ?? [];
  probe.remove();
  /** @type {Colour} */
  const colour = [Number(parts[0]), Number(parts[1]), Number(parts[2])];
  coloursRead.set(name, colour);
  return colour;
}

/** @param {Colour} colour @param {number} opacity */
export function cssText([red, green, blue], opacity = 1) {
  return `rgba(${red}, ${green}, ${blue}, ${opacity})`;
}

/**
 * Interpolates 256 colours between colours of the style sheet.
 * @param {string[]} names
 */
function readScale(names) {
  const stops = names.map(cssColour);
  return Array.from({ length: 256 }, (_, i) => {
    const place = (i / 255) * (stops.length - 1);
    const before = stops[Math.floor(place)];
    const after = stops[Math.min(Math.floor(place) + 1, stops.length - 1)];
    const share = place - Math.floor(place);
    return /** @type {Colour} */ (
      before.map((value, k) => Math.round(value + share * (after[k] - value)))
    );
  });
}

/**
 * @param {string} key
 * @param {string[]} names
 * @param {number} share
 */
function colourOnScale(key, names, share) {
  let scale = scalesRead.get(key);
  if (!scale) scalesRead.set(key, (scale = readScale(names)));
  return scale[Math.round(255 * Math.min(Math.max(share, 0), 1))];
}

/**
 * Returns a colour from faint to strong: light to dark on white, dark to light on black.
 * @param {number} share from 0 to 1
 */
export function sequentialColour(share) {
  return colourOnScale("sequential", ["--scale-0", "--scale-1", "--scale-2", "--scale-3"], share);
}

/**
 * Returns black or white, whichever is readable on this colour.
 * @param {Colour} colour
 */
export function inkOn([red, green, blue]) {
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#000" : "#fff";
}

/**
 * Draws again when the theme changes and for printing.
 * @param {() => void} draw
 */
export function redrawInTheme(draw) {
  redraws.push(draw);
}

/**
 * Draws now, and again when the theme changes and for printing.
 * @param {() => void} draw
 */
export function drawInTheme(draw) {
  redraws.push(draw);
  draw();
}

/**
 * Draws again when the width available to the canvas changes.
 * @param {HTMLCanvasElement} canvas @param {() => void} draw
 */
export function drawWhenResized(canvas, draw) {
  const place = /** @type {HTMLElement} */ (canvas.parentElement);
  let width = place.clientWidth;
  new ResizeObserver(() => {
    if (place.clientWidth === width) return;
    width = place.clientWidth;
    draw();
  }).observe(place);
}

function redrawAll() {
  coloursRead.clear();
  scalesRead.clear();
  for (const draw of redraws) draw();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
for (const [event, paper] of /** @type {[string, boolean][]} */ ([["beforeprint", true], ["afterprint", false]]))
  addEventListener(event, () => {
    document.documentElement.classList.toggle("paper", paper);
    redrawAll();
  });
