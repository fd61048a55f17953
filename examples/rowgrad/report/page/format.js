// Formats numbers and tokens for readers.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-US", { maximumFractionDigits: 6 });

/** @param {number | null | undefined} number */
export function formatCount(number) {
  if (number === null || number === undefined) return "–";
  return whole.format(number).replace("-", "−");
}

/**
 * Formats a measured number with three significant digits; very small or large ones as powers of ten.
 * @param {number | null | undefined} number
 */
export function formatNumber(number) {
  if (number === null || number === undefined || !Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  if (size === 0) return "0";
  if (size >= 1e6 || size < 1e-3) {
    const [digits, power] = number.toExponential(2).split("e");
    return `${Number(digits)}e${Number(power)}`.replaceAll("-", "−");
  }
  if (size >= 1000) return formatCount(number);
  return number.toPrecision(3).replace("-", "−");
}

/**
 * Formats a round number with as few digits as possible, for axes.
 * @param {number} number
 */
export function formatTick(number) {
  const round = Number(number.toPrecision(6));
  const size = Math.abs(round);
  if (size >= 1e6 || (size > 0 && size < 1e-4)) return formatNumber(round);
  return short.format(round).replace("-", "−");
}

/** @param {number} share of 1 */
export function formatPercent(share) {
  const percent = 100 * share;
  if (percent > 0 && percent < 0.1) return "<\u00a00.1\u00a0%";
  if (percent > 99.9 && percent < 100) return ">\u00a099.9\u00a0%";
  return `${percent.toFixed(percent >= 10 && percent <= 90 ? 0 : 1).replace(/\.0$/, "")}\u00a0%`;
}

/** @param {number} seconds */
export function formatTime(seconds) {
  if (seconds < 60) return `${formatNumber(seconds)} s`;
  const rounded = Math.round(seconds);
  const minutes = Math.floor(rounded / 60);
  if (minutes < 60) return `${minutes} min ${rounded % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** @param {number} number @param {string} noun in the singular */
export function formatPlural(number, noun) {
  return `${formatCount(number)} ${noun}${number === 1 ? "" : "s"}`;
}

// Invisible characters such as controls and direction marks. They are shown as code points, so that
// they cannot hide or reorder their surroundings.
const shapeless = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Capitalizes the first letter. @param {string} words */
export function formatTitle(words) {
  return words.replace(/^./u, (first) => first.toUpperCase());
}

/**
 * Makes invisible characters visible, except spaces and line ends.
 * @param {string} text
 */
export function formatText(text) {
  return text.replace(
    shapeless,
    (mark) => `⟨U+${(mark.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );
}

const longestName = 32;

/**
 * Formats a token on one line, with visible spaces and line ends. Long tokens are cut.
 * @param {string | undefined} text
 */
export function formatToken(text) {
  if (text === undefined) return "(no such token)";
  const characters = Array.from(text.slice(0, 4 * longestName));
  const cut = characters.length > longestName;
  const name = formatText((cut ? characters.slice(0, longestName - 1) : characters).join(""));
  if (name === "") return "(empty)";
  return name.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥") + (cut ? "…" : "");
}
