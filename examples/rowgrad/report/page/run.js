// Shows what was run, and the command that repeats it.

import { byId, definitionList, element } from "./dom.js";
import { formatCount, formatPercent, formatPlural, formatText, formatTime } from "./format.js";

/** @import { Report } from "./types" */

const longestTitle = 80;

/** @param {Report} report */
export function showTitle(report) {
  const { run } = report;
  const text = run.text?.source.split(",")[0]; // the rest describes its origin
  const title = formatText(`${run.program ?? "A run"}${text ? ` on ${text}` : ""}`.slice(0, longestTitle));
  byId("title", HTMLElement).textContent = title;
  document.title = `${title} – rowgrad`;
  const started = new Date(run.started ?? NaN);
  const start = Number.isNaN(started.getTime()) ? [] :
    [`Started on ${started.toLocaleDateString("en-GB", { dateStyle: "long" })} at ` +
      started.toLocaleTimeString("en-GB", { timeStyle: "short" })];
  const cost = run.report_seconds === undefined ? "" : `, including ${formatTime(run.report_seconds)} for this report`;
  const took = `${start.length > 0 ? "it" : "It"} ${run.state === "running" ? "has taken" : "took"} ${formatTime(run.seconds)}${cost}`;
  byId("subtitle", HTMLElement).textContent = [...start, took].join("; ");
  const state = byId("state", HTMLElement);
  state.textContent = [describeState(report), describeStart(run)].join(" ").trim();
  state.className = state.textContent === "" ? "" : "notice";
}

/** @param {Report} report */
function describeState({ run, curves, text }) {
  const steps = curves?.step.at(-1) ?? run.first_step;
  const fault = run.fault === undefined ? "" : `This report is incomplete: ${formatText(run.fault)}`;
  if (run.state === "running")
    return `The run had not ended when this page was written, after step ${formatCount(steps)}. Reload it to see later ` +
      "steps. The text, the embeddings and all rows of large tables are shown when the run has ended." +
      (fault && ` ${fault}`);
  if (run.state !== "stopped") return fault;
  const planned = Number(run.options?.["--steps"]);
  const all = planned > steps ? ` of ${formatCount(planned)}` : "";
  return (steps === 0 ? "Stopped before its first step." : `Stopped after step ${formatCount(steps)}${all}.`) +
    (fault !== "" ? ` ${fault}` : text ? "" : " The text and the embeddings are missing because the run was interrupted.");
}

/** @param {Report["run"]} run */
function describeStart({ first_step: first }) {
  return first > 0
    ? `The run was resumed after ${formatPlural(first, "step")}: lookups, gradients and movement are counted from there.`
    : "";
}

/** @param {Report} report */
export function showRun(report) {
  const { run } = report;
  /** @type {[string, string][]} */
  const facts = [];
  if (run.text) facts.push(["Text", `${run.text.source}, ${formatCount(run.text.bytes)} bytes`]);
  if (run.tokenizer) facts.push(["Tokenizer", `${run.tokenizer.name}, ${formatCount(run.tokenizer.size)} ids`]);
  if (run.tokens) {
    const { training, validation } = run.tokens;
    facts.push(["Tokens", `${formatCount(training)} for training, ${formatCount(validation)} for validation`]);
  }
  const steps = report.curves?.step.at(-1);
  if (steps !== undefined) facts.push(["Steps", formatCount(steps) + (run.first_step > 0 ? `, the first ${formatCount(run.first_step)} before this report` : "")]);
  const last = (report.evaluations ?? []).filter((one) => (one.training_accuracy ?? one.validation_accuracy) !== undefined).at(-1);
  if (last) {
    const shares = Object.entries({ training: last.training_accuracy, validation: last.validation_accuracy })
      .flatMap(([part, share]) => (share === undefined ? [] : [`${formatPercent(share)} in ${part}`]));
    facts.push(["Accuracy", `${shares.join(", ")} (step ${formatCount(last.steps)})`]);
  }
  if (run.parameters?.length) {
    const count = run.parameters.reduce((sum, parameter) => sum + parameter.count, 0);
    facts.push(["Model", `${formatCount(count)} parameters in ${run.parameters.length} tensors`]);
  }
  if (run.machine) facts.push(["Machine", run.machine]);
  byId("run-facts", HTMLElement).append(
    definitionList(facts.map(([name, value]) => [formatText(name), formatText(value)])),
  );
  showCommand(run.command);
  showOptions(run.options);
  showParameters(run.parameters);
  return { facts };
}

/** @param {string | undefined} command */
function showCommand(command) {
  byId("repeat", HTMLElement).hidden = command === undefined;
  if (command === undefined) return;
  const place = byId("command", HTMLElement);
  // Lines break between arguments, but not after dashes.
  place.append(...formatText(command).split(" ").flatMap((word, i) => [i > 0 ? " " : "", element("span", {}, word)]));
  const button = byId("copy", HTMLButtonElement);
  button.addEventListener("click", async () => {
    getSelection()?.selectAllChildren(place); // for copying by hand if the clipboard is not accessible
    try {
      await navigator.clipboard.writeText(command);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Selected";
    }
  });
}

/** @param {Record<string, unknown> | undefined} options */
function showOptions(options) {
  const place = byId("options", HTMLElement);
  const entries = Object.entries(options ?? {});
  place.hidden = entries.length === 0;
  place.append(
    definitionList(entries.map(([name, value]) => [formatText(name), formatText(String(value))])),
  );
}

/** @param {Report["run"]["parameters"]} parameters */
function showParameters(parameters = []) {
  const place = byId("parameters", HTMLElement);
  place.hidden = parameters.length === 0;
  const body = element("tbody");
  for (const { name, shape, count, trainable } of parameters)
    body.append(
      element("tr", {},
        element("th", { scope: "row" }, formatText(name) + (trainable ? "" : " (frozen)")),
        element("td", { class: "number" }, shape.join(" × ")),
        element("td", { class: "number" }, formatCount(count))),
    );
  const head = element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Name"),
    element("th", { scope: "col", class: "number" }, "Shape"),
    element("th", { scope: "col", class: "number" }, "Elements")));
  place.append(element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Parameters" },
    element("table", {}, head, body)));
}
