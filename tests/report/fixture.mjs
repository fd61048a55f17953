// Generated reports that look like reports of real runs: a small one, one with GPT-2's 50,257 ids, one of
// an unfinished run, and one with hostile text.

import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const story = new URL("../../examples/data/the-slow-clock.txt", import.meta.url);

/** Returns a generator (Mulberry32) of the same random numbers on every machine. */
function randomNumbers(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const rounded = (number) => Number(number.toPrecision(3));
const range = (count) => Array.from({ length: count }, (_, i) => i);

/** Returns a vocabulary of words with leading spaces, like byte pairs, and the ids of the story. */
function tokenize(size, random) {
  const pieces = readFileSync(story, "utf8").match(/ ?[A-Za-z’']+|\n+|[^A-Za-z\s]| +/g);
  const known = [...new Set(pieces)].sort();
  const vocabulary = size
    ? range(size).map((i) => ` made-up${i}`)
    : [...known, " never", "!?", " unseen"];
  if (size) {
    const places = new Set();
    while (places.size < known.length) places.add(Math.floor(random() ** 2 * size));
    [...places].forEach((place, i) => (vocabulary[place] = known[i]));
  }
  const ids = new Map(vocabulary.map((token, id) => [token, id]));
  return { vocabulary, ids: pieces.map((piece) => ids.get(piece)) };
}

/** Simulates training: looks up rows and moves them. */
function makeTables({ ids, rows, steps, frames, random, table, context, positions }) {
  const known = new Map();
  const frameList = [];
  const touchedRows = [];
  const idle = new Map();
  const addStretch = (id, row, length) => {
    if (length === 0) return;
    const sums = idle.get(id) ?? { momentum: 0, decay: 0 };
    sums.momentum += 0.004 * row.moved;
    sums.decay += 0.0001 * length;
    idle.set(id, sums);
  };
  for (let step = 1; step <= steps; ++step) {
    const touched = new Set();
    for (let window = 0; window < 8; ++window) {
      const start = Math.floor(random() * (ids.length - context));
      ids.slice(start, start + context).forEach((id, at, text) => {
        touched.add(id);
        const row = known.get(id) ?? { lookups: 0, steps: 0, last: 0, squares: 0, moved: 0, path: 0, farthest: [] };
        known.set(id, row);
        ++row.lookups;
        row.text = text.slice(Math.max(at - 8, 0), at + 4);
        row.place = Math.min(at, 8);
      });
    }
    for (const id of touched) {
      const row = known.get(id);
      const { text, place } = row;
      const gradient = (0.3 + random()) / (1 + Math.sqrt(row.lookups) / 10);
      if (row.steps > 0) addStretch(id, row, step - row.last - 1);
      ++row.steps;
      row.last = step;
      row.squares += gradient ** 2;
      const moved = rounded(0.05 * gradient);
      row.path += moved;
      row.farthest.push({ step, lookups: 1, norm: rounded(gradient), moved, text, place });
      row.farthest = row.farthest.sort((a, b) => b.moved - a.moved).slice(0, 3);
      row.moved = Math.sqrt(row.moved ** 2 + (0.05 * gradient) ** 2 + 0.004 * row.moved * gradient);
    }
    touchedRows.push(touched.size);
    if (step === steps) for (const [id, row] of known) addStretch(id, row, step - row.last);
    if (step % Math.ceil(steps / frames) !== 0 && step !== steps) continue;
    const list = [...known];
    frameList.push({
      step,
      rows: list.map(([id]) => id),
      lookups: list.map(([, row]) => row.lookups),
      steps: list.map(([, row]) => row.steps),
      last: list.map(([, row]) => row.last),
      norm: list.map(([, row]) => rounded(Math.sqrt(row.squares))),
      moved: list.map(([, row]) => rounded(row.moved)),
    });
  }
  const token = {
    name: "token.weight", kind: "token", tokens: true, rows, width: 128, frames: frameList,
    reasons: reasonsOf([...known]),
    idle: {
      rows: [...idle.keys()],
      momentum: [...idle.values()].map((sums) => rounded(sums.momentum)),
      decay: [...idle.values()].map((sums) => rounded(sums.decay)),
    },
    ...(table === "decayed" && { decayed: 0.942 }),
    ...(table === "coupled" && { coupled_decay: true }),
    ...(table === "dense" && { dense: true }),
  };
  if (table === "dense") token.idle = { rows: [], momentum: [], decay: [] };
  if (table === "coupled") {
    token.idle.momentum = token.idle.momentum.map((momentum, i) => rounded(momentum + token.idle.decay[i]));
    token.idle.decay.fill(0);
  }
  return { tables: [token, ...windowTables(positions, context, frameList.map(({ step }) => step))], touchedRows };
}

function reasonsOf(known) {
  return {
    rows: known.map(([id]) => id),
    path: known.map(([, row]) => rounded(row.path)),
    steps: known.map(([, row]) => row.farthest),
  };
}

/** Returns a table whose first `used` rows are looked up by every window. */
export function windowTable(kind, name, rows, used, steps, labels) {
  return {
    name, kind, rows, width: 128, labels,
    frames: steps.map((step) => ({
      step,
      rows: range(used),
      lookups: range(used).map(() => 8 * step),
      steps: range(used).map(() => step),
      last: range(used).map(() => step),
      norm: range(used).map((i) => rounded(Math.sqrt(step) / (1 + i / 8))),
      moved: range(used).map((i) => rounded(Math.sqrt(step) / (40 + i))),
    })),
    idle: { rows: [], momentum: [], decay: [] },
    reasons: reasonsOf(range(used).map((i) =>
      [i, { path: 2, farthest: [{ step: steps[0], lookups: 8, norm: 0.4, moved: 0.5 }] }])),
  };
}

function windowTables(positions, context, steps) {
  const shaw = ["16 and more", ...range(16).map((i) => `${15 - i}`), ...range(16).map((i) => `−${i + 1}`)];
  const wide = range(16).map((i) => Math.ceil(16 * 8 ** (i / 16)));
  const t5 = [...range(16).map(String), ...wide.map((first, i) => (i < 15 ? `${first} to ${wide[i + 1] - 1}` : `${first} and more`))];
  return {
    // The last positions are omitted, so that some rows are never touched.
    learned: () => [windowTable("position", "position.weight", context, context - 2, steps)],
    t5: () => [windowTable("distance", "t5_table", 32, 26, steps, t5)],
    shaw: () => ["shaw_keys", "shaw_values"].map((name) => windowTable("distance", name, 33, 17, steps, shaw)),
  }[positions]();
}

/** Returns an n-gram memory's table of 37 rows with the bigrams of a text, and its gates. */
function addMemory(report) {
  const { ids, training } = report.text;
  const labels = range(37).map(() => "");
  for (let i = 1; i < 60; ++i) {
    const row = (ids[i] * 31 + ids[i - 1]) % 36; // no bigram uses the last row
    const bigram = [ids[i - 1], ids[i]].map((id) => report.vocabulary[id]).join("");
    labels[row] += (labels[row] && " | ") + bigram;
  }
  const steps = report.tables[0].frames.map(({ step }) => step);
  report.tables.push(windowTable("n-gram", "memories.0.table.weight", 37, 36, steps, labels));
  const values = ids.map((id, i) => (i + 1 === training || i + 1 === ids.length ? null : 300 + ((7 * id) % 500)));
  report.text.gates = [{ block: 1, values }];
}

/** Returns the report of a model with an n-gram memory. */
export function makeMemoryReport(options) {
  const report = makeReport(options);
  addMemory(report);
  return report;
}

/** Returns the text of the report, with the losses of a bigram model. */
function makeText(ids, vocabulary, random) {
  const training = Math.floor(0.9 * ids.length);
  const followers = new Map();
  for (let i = 1; i < training; ++i) {
    const counts = followers.get(ids[i - 1]) ?? new Map();
    counts.set(ids[i], (counts.get(ids[i]) ?? 0) + 1);
    followers.set(ids[i - 1], counts);
  }
  const frequent = range(5).map((i) => ids[7 * i]);
  const text = { ids, training, loss: [null], expected: [[]], probability: [[]] };
  for (let i = 1; i < ids.length; ++i) {
    const counts = [...(followers.get(ids[i - 1]) ?? [])].sort((a, b) => b[1] - a[1]);
    const all = counts.reduce((sum, [, count]) => sum + count, 0);
    const own = counts.find(([id]) => id === ids[i])?.[1] ?? 0;
    const share = (0.8 * own) / (all || 1) + 0.2 / vocabulary.length;
    text.loss.push(i === training ? null : rounded(-Math.log(share) * (0.8 + 0.4 * random())));
    const best = [...new Set([...counts.map(([id]) => id), ...frequent])].slice(0, 5);
    text.expected.push(best);
    text.probability.push(
      best.map((id) => Math.round((800 * (counts.find(([other]) => other === id)?.[1] ?? 0)) / (all || 1))),
    );
  }
  return text;
}

function makeEmbeddings(frame, random) {
  const ids = frame.rows
    .map((id, place) => [id, frame.lookups[place]])
    .sort((a, b) => b[1] - a[1])
    .slice(0, 500)
    .map(([id]) => id);
  const normal = () => random() + random() + random() - 1.5;
  const x = ids.map((_, i) => rounded(2 * Math.cos(i % 5) + normal()));
  const y = ids.map((_, i) => rounded(2 * Math.sin(i % 5) + normal()));
  const cosine = (i, k) => (x[i] * x[k] + y[i] * y[k]) / Math.hypot(x[i], y[i]) / Math.hypot(x[k], y[k]);
  const nearest = ids.map((_, i) =>
    range(ids.length).filter((k) => k !== i).sort((a, b) => cosine(i, b) - cosine(i, a)).slice(0, 8));
  return {
    ids,
    neighbours: nearest.map((places) => places.map((k) => ids[k])),
    cosines: nearest.map((places, i) => places.map((k) => Math.round(100 * cosine(i, k)))),
    x, y, variance: [0.213, 0.094],
  };
}

function makeAttention(tokens, random) {
  const size = tokens.length;
  const kinds = [
    (query, key) => (key === query - 1 ? 20 : 1), // the token before
    (query, key) => (key === 0 ? 8 : 1), // the first token
    () => 1 + 4 * random(), // random tokens
    (query, key) => (tokens[key] === tokens[query] ? 12 : 1), // the same token
  ];
  const weights = range(4).map((layer) => range(4).map((head) => range(size).map((query) => {
    const raw = range(size).map((key) => (key > query ? 0 : kinds[(head + layer) % 4](query, key) + random()));
    const sum = raw.reduce((a, b) => a + b);
    return raw.map((weight) => Math.round((1000 * weight) / sum));
  })));
  return { tokens, weights };
}

/**
 * @param {{vocabulary?: number, steps?: number, frames?: number, state?: "running" | "stopped" | "finished",
 *          positions?: "learned" | "t5" | "shaw", table?: "decayed" | "coupled" | "dense"}} options
 */
export function makeReport({
  vocabulary: size = 0, steps = 600, frames = 15, state = "finished", positions = "learned", table = "decayed",
} = {}) {
  const random = randomNumbers(123);
  const { vocabulary, ids } = tokenize(size, random);
  const context = 64;
  const text = makeText(ids, vocabulary, random);
  const { tables, touchedRows } = makeTables({
    ids: ids.slice(0, text.training), rows: vocabulary.length, steps, frames, random, table, context, positions,
  });
  const uniform = Math.log(vocabulary.length);
  const trend = (step) => 1.6 + (uniform - 1.6) * Math.exp((-5 * step) / steps);
  const step = range(steps).map((i) => i + 1);
  const measured = step.filter((i) => i % Math.ceil(steps / 50) === 0);
  const norm = measured.map((i) => rounded(0.6 + 3 * Math.exp((-6 * i) / steps) + 0.4 * random()));
  const evaluated = range(frames + 1).map((i) => Math.round((i * steps) / frames));
  const report = {
    format: "rowgrad report 2",
    run: {
      program: "rowgrad train",
      command: `build/bin/rowgrad train --model gpt --steps ${steps} --layers 4 --heads 4 --width 128 --report run.html`,
      started: "2026-01-31T12:34:56Z",
      seconds: 61.4,
      report_seconds: 0.521,
      state,
      first_step: 0,
      machine: "OpenBLAS kernel Haswell, 2 threads",
      text: { source: "The Slow Clock", bytes: 17896 },
      tokenizer: { name: size ? "gpt2" : "bpe", size: vocabulary.length },
      tokens: { training: text.training, validation: ids.length - text.training },
      options: { "--steps": steps, "--layers": 4, "--heads": 4, "--width": 128, "--decay": "matrices", "--clip": 1 },
      parameters: [
        { name: "token.weight", shape: [vocabulary.length, 128], count: 128 * vocabulary.length, trainable: true },
        { name: "position.weight", shape: [64, 128], count: 8192, trainable: true },
        { name: "block.0.norm1.weight", shape: [128], count: 128, trainable: true },
        { name: "head.scale", shape: [1], count: 1, trainable: false },
      ],
    },
    vocabulary,
    loss_unit: "nats",
    curves: {
      step,
      loss: step.map((i) => rounded(trend(i) + 0.35 * (random() - 0.5))),
      learning_rate: step.map((i) => rounded(0.001 * Math.min(i / 50, 1) * (0.55 + 0.45 * Math.cos((Math.PI * i) / steps)))),
      speed: step.map(() => Math.round(21000 + 3000 * random())),
      rows: touchedRows,
    },
    norms: { step: measured, norm, clipped: norm.map((value) => Math.min(value, 1)) },
    evaluations: evaluated.map((at) => ({
      steps: at,
      training_loss: rounded(trend(at)),
      validation_loss: rounded(trend(at) + 0.25 + 1.2 * Math.max(at / steps - 0.45, 0)),
    })),
    baselines: { uniform: rounded(uniform), unigram: rounded(0.8 * uniform) },
    samples: evaluated.slice(1).map((at, i) => ({
      steps: at,
      text: ids.slice(40 * i, 40 * i + 30).map((id) => vocabulary[id]).join(""),
    })),
    tables,
  };
  if (state === "running") return report;
  report.evaluations.at(-1).training_loss = null;
  return {
    ...report,
    text,
    embeddings: makeEmbeddings(tables[0].frames.at(-1), random),
    attention: makeAttention(ids.slice(0, 28), random),
  };
}

/** Returns the report of a run that was resumed without its log. */
export function makeResumedReport(firstStep, options) {
  const report = makeReport(options);
  report.run.first_step = firstStep;
  const steps = [report.curves.step, report.norms.step];
  for (const { reasons } of report.tables) for (const reason of reasons.steps.flat()) reason.step += firstStep;
  for (const { frames } of report.tables) steps.push(...frames.map(({ last }) => last));
  for (const list of steps) list.forEach((step, i) => (list[i] = step + firstStep));
  for (const one of [...report.evaluations, ...report.samples]) one.steps += firstStep;
  for (const { frames } of report.tables) for (const frame of frames) frame.step += firstStep;
  return report;
}

/** Returns the report of `rowgrad rows`: few steps, and no evaluation. */
export function makeShortReport({ steps = 1 } = {}) {
  const report = makeReport({ steps, frames: 1 });
  for (const part of ["evaluations", "samples"]) delete report[part];
  report.run.program = "rowgrad rows";
  report.run.command = `rowgrad rows --steps ${steps}`;
  report.curves.speed[0] = null; // the first step has no speed
  return report;
}

/** Returns the report of a custom loop with tables of users and films, and without a description. */
export function makeOwnReport() {
  const { format, curves, norms, tables, run } = makeReport({ steps: 60, frames: 3, state: "running" });
  const { seconds, state, first_step } = run;
  for (const [i, kind] of ["user", "film"].entries()) {
    Object.assign(tables[i], { kind, tokens: false, name: `${kind}s.weight` });
    for (const reason of tables[i].reasons.steps.flat()) delete reason.text;
  }
  return { format, curves, norms, tables, run: { seconds, state, first_step } };
}

export const hostileTexts = [
  "</script><script>window.harmed = 1</script>",
  "<img src=x onerror='window.harmed = 2'>",
  "\u202egnp.exe",
  "\u2066\u2067\u200f\u200b",
  "<0xE2><0x80>",
  "__proto__",
  "constructor",
  "javascript:window.harmed=3",
  "<!-- ",
  "]]>",
  "a".repeat(5000),
  "Z\u0335\u0321\u0322\u0327\u0328".repeat(200),
  "\u0000\u0007\u001b[31m",
  "${window.harmed = 4}",
  "@SCRIPTS@ @DATA@ $& $1 \\0",
];

/** Returns a small report with hostile text in all strings. */
export function makeHostileReport() {
  const report = makeReport({ steps: 60, frames: 3 });
  const all = hostileTexts.join(" ");
  hostileTexts.forEach((text, i) => {
    report.vocabulary[report.text.ids[i + 1]] = text;
    report.samples.push({ steps: 60 + i, text });
  });
  report.run.program = report.run.command = report.run.text.source = report.run.tokenizer.name = all;
  report.run.machine = all;
  report.run.options = JSON.parse('{"__proto__": "</script>", "constructor": 1}');
  report.run.parameters[0].name = report.tables[0].name = report.tables[1].name = all;
  return report;
}

/** Returns the page with the data, as programs write it. */
export function fillPage(page, report) {
  const data = gzipSync(JSON.stringify(report)).toString("base64");
  const [before, after] = page.split(">@DATA@<");
  return `${before}>${data}<${after}`;
}
