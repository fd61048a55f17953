// Numbers and tokens as people read them.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-US", { maximumFractionDigits: 6 });

/** @param {number | null | undefined} number */
export function formatCount(number) {
  if (number === null || number === undefined) return "–";
  return whole.format(number).replace("-", "−");
}

/**
 * A measured number: three significant digits, and powers of ten for what is very small or large.
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
 * As few digits as a round number needs, for axes.
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

// Controls, marks of direction and what else has no shape of its own. Shown by their numbers, they
// can neither hide nor turn round what stands beside them.
const shapeless = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Words as a title. @param {string} words */
export function formatTitle(words) {
  return words.replace(/^./u, (first) => first.toUpperCase());
}

/**
 * The text with everything in it visible; spaces and line ends stay what they are.
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
 * A token as a name on one line: its spaces and line ends are visible, and it is cut if it is long.
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
