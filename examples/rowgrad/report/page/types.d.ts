// The data of a report, as written by `rowgrad report --data` and contained in a page, and the types of
// dygraphs that the page uses.
//
// Parallel arrays have the same length. Missing data are absent. Losses of language models are in nats
// per token. Steps count from 1: `step` is the number of steps made.

export type Colour = [red: number, green: number, blue: number];

/** Numbers; null stands for a value that is not finite. */
export type Numbers = (number | null)[];

/** The run. */
export interface Run {
  program?: string;
  /** The command line that repeats the run. */
  command?: string;
  /** "2026-01-31T12:34:56Z" */
  started?: string;
  /** Time since the start. */
  seconds: number;
  /** The part of this time taken by the log and by the analysis of the text at the end. */
  report_seconds?: number;
  /**
   * "stopped": by Ctrl-C, by --stop-after, or by an error (see `fault`). Text, embeddings and attention
   * are present after the end of a program, but not after Ctrl-C or an error.
   */
  state: "running" | "stopped" | "finished";
  /** The error of the run or its report; absent if there was none. */
  fault?: string;
  /**
   * Steps made before the log started: 0 for a new run. If a run was resumed without its log, lookups,
   * gradients and movements are counted from this step.
   */
  first_step: number;
  /** The unit of the speed, "tokens" or "examples"; absent without a TrainingRun. */
  unit?: string;
  /** The BLAS kernel and the number of threads. */
  machine?: string;
  text?: { source: string; bytes: number };
  tokenizer?: { name: string; size: number };
  /** The numbers of tokens. */
  tokens?: { training: number; validation: number };
  /** {"--width": 128, …} */
  options?: Record<string, unknown>;
  parameters?: { name: string; shape: number[]; count: number; trainable: boolean }[];
}

/** One entry per step, or per n steps if there are more than 2,048 steps. */
export interface Curves {
  step: number[];
  /** The mean loss of the step. */
  loss: Numbers;
  learning_rate?: Numbers;
  /** Units per second; without a TrainingRun, lookups in the first table. */
  speed?: Numbers;
  /** Rows of the first table with a gradient in this step; with dense gradients, rows looked up. */
  rows?: Numbers;
}

/** The norm of all gradients together in some steps, before and after clipping. */
export interface Norms {
  step: number[];
  norm: Numbers;
  clipped: Numbers;
}

export interface Evaluation {
  steps: number;
  /** Null at the end, if only the validation loss was computed. */
  training_loss: number | null;
  /** Null without validation data. */
  validation_loss: number | null;
  /** The shares of correct predictions, if they were computed. */
  training_accuracy?: number;
  validation_accuracy?: number;
}

/**
 * A table at one time. It lists rows that had a gradient (with dense gradients: that were looked up) since
 * they were last listed: all rows that were never listed, and others up to 2,000 rows; rows with the most
 * steps since then take precedence. Other rows are as in the frame before, or never had a gradient. The
 * last frame of a run that has ended lists all rows, including rows that moved without a gradient.
 */
export interface Frame {
  /** The step after which the frame was taken. */
  step: number;
  rows: number[];
  /**
   * Lookups since first_step; with several ranks, only lookups of the first rank. A row of positions
   * counts once for each batch.
   */
  lookups: number[];
  /** Steps in which the row had a gradient; with dense gradients, steps that looked it up. */
  steps: number[];
  /** The last of these steps. */
  last: number[];
  /** The root of the sum of the row's squared gradients in all steps. */
  norm: number[];
  /**
   * The distance of the row from its values at first_step; for a table file with coupled_decay, from
   * its values before its first gradient.
   */
  moved: number[];
}

/** A step that moved a row. */
export interface Reason {
  step: number;
  lookups: number;
  /** The norm of the row's gradient, before clipping. */
  norm: number;
  moved: number;
  /** For tokens: the ids around a lookup. */
  text?: number[];
  /** The index of the lookup in `text`. */
  place?: number;
}

export interface RowTable {
  /** "token.weight" */
  name: string;
  /** The word for a row: "token", "position", "distance", "n-gram", "row", or the word of a layer. */
  kind: string;
  /** True if the rows are the tokens of the vocabulary. */
  tokens?: boolean;
  rows: number;
  width: number;
  /**
   * The names of all rows, if they have names: "8 to 11". For n-grams, the n-grams that looked the row up,
   * the most frequent first: "the dog | of a | 3 more"; "" for none.
   */
  labels?: string[];
  /**
   * For a table that is shown in part: the ids of its rows, by the distance they moved. Other members
   * use indices into this array. A table with more than 262,144 rows has its rows with a gradient; the
   * table of an n-gram memory has at most 2,000 rows.
   */
  ids?: number[];
  /** About 20 at equal intervals, or more if the length of the run was unknown, and one for the end. */
  frames: Frame[];
  /**
   * Rows that moved in steps without a gradient, after their first gradient. The distances are sums over
   * each sequence of these steps, by momentum (with coupled_decay: by both) and by weight decay. Absent
   * for dense gradients.
   */
  idle?: { rows: number[]; momentum: number[]; decay: number[] };
  /**
   * Reasons for up to 2,000 rows that moved farthest: the sum of the distances moved in steps with a
   * gradient, without weight decay, and the up to three steps that moved the row farthest.
   */
  reasons?: { rows: number[]; path: number[]; steps: Reason[][] };
  /**
   * True if the table also has dense gradients, for example from a tied head. All rows then have a
   * gradient in each step, and only rows that were looked up are listed.
   */
  dense?: boolean;
  /** The fraction that weight decay has left of rows that never had a gradient. */
  decayed?: number;
  /**
   * True if decay is part of the gradient (Adam, RMSprop and Adagrad with weight decay). Rows without a
   * gradient of their own then also move, by an amount that is not tracked.
   */
  coupled_decay?: boolean;
}

/** The text with its losses at the end of the run, token by token; at most 24,000 tokens. */
export interface Passage {
  ids: number[];
  /** The number of training tokens, which come first. */
  training: number;
  /** The numbers of tokens that are not in `ids`. */
  left_out?: { training: number; validation: number };
  /**
   * The loss of each token, given the tokens before it; null for the first training token and the first
   * validation token.
   */
  loss: Numbers;
  /** The five most likely tokens at each position. */
  expected: number[][];
  /** Their probabilities, in thousandths. */
  probability: number[][];
  /**
   * The gates of n-gram memories, ordered by the block after the memory: the gate at each token, in
   * thousandths; null for the last training token and the last validation token, which are not read.
   */
  gates?: { block: number; values: Numbers }[];
}

/** The embeddings of up to 2,000 tokens with the most lookups. */
export interface Embeddings {
  ids: number[];
  /** Up to 8 nearest neighbours of each token by cosine. */
  neighbours: number[][];
  /** Their cosines, from −100 to 100. */
  cosines: number[][];
  /** The coordinates in the two directions of largest variance. */
  x: number[];
  y: number[];
  /** The shares of x and y in the variance. */
  variance: [number, number];
}

export interface Report {
  /** "rowgrad report 2" */
  format: string;
  run: Run;
  /** The text of each id; bytes that are not UTF-8 are shown as <0xNN>. Empty without tokens. */
  vocabulary: string[];
  /** True if tokens are words, which decoding joins with spaces. */
  words?: boolean;
  /** The unit of losses, if known. */
  loss_unit?: string;
  curves?: Curves;
  norms?: Norms;
  evaluations?: Evaluation[];
  /** Losses if all tokens are equally likely, and by token frequency. */
  baselines?: { uniform: number; unigram: number };
  samples?: { steps: number; text: string }[];
  /** Tables with row gradients; the token table comes first. */
  tables?: RowTable[];
  text?: Passage;
  embeddings?: Embeddings;
  /** The weights for a prompt: [layer][head][query][key], in thousandths. */
  attention?: { tokens: number[]; weights: number[][][][] };
}

interface DygraphPoint {
  xval: number;
  name: string;
}

declare global {
  class Dygraph {
    constructor(
      place: HTMLElement,
      rows: (number | null)[][],
      options: Record<string, unknown>,
    );
    static defaultInteractionModel: Record<string, unknown>;
    updateOptions(options: Record<string, unknown>, blockRedraw?: boolean): void;
    setSelection(row: number): void;
    clearSelection(): void;
    getSelection(): number;
    xAxisRange(): [number, number];
    xAxisExtremes(): [number, number];
    toDomXCoord(x: number): number;
    toDataXCoord(pixels: number): number;
    getArea(): { x: number; y: number; w: number; h: number };
    getValue(row: number, column: number): number | null;
    numRows(): number;
    resize(): void;
    resetZoom(): void;
  }

  interface Window {
    /** The parts of the page, for tests and the browser's console. */
    rowgradReport: Record<string, unknown>;
  }
}
