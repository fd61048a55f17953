// The data of a report, as `report --data` writes them and a page holds them, and the types of what the
// page uses of dygraphs.
//
// Arrays of numbers that belong together have the same length. What a run does not have is absent.
// Losses of language models are in nats a token. Steps are counted from 1: `step` is the number of
// steps made.

export type Colour = [red: number, green: number, blue: number];

/** Numbers; null stands for one that is not finite. */
export type Numbers = (number | null)[];

/** What was run. */
export interface Run {
  program?: string;
  /** The command line that repeats it. */
  command?: string;
  /** "2026-01-31T12:34:56Z" */
  started?: string;
  /** Time since then. */
  seconds: number;
  /** What the log took of it, and the reading of the text at the end. */
  report_seconds?: number;
  /**
   * Stopped by Ctrl-C, by --stop-after or by an error, which is the fault. Text, embeddings and attention
   * are there at the end of a program, but not after Ctrl-C or an error.
   */
  state: "running" | "stopped" | "finished";
  /** What went wrong with the run or its report; absent if nothing did. */
  fault?: string;
  /**
   * Steps that had been made when the log began: 0 for a new run. Lookups, gradients and movement of a
   * run that was resumed without its log are counted from there.
   */
  first_step: number;
  /** What speed is counted in, "tokens" or "examples"; absent for a loop of one's own. */
  unit?: string;
  /** The kernel of matrix products, and threads. */
  machine?: string;
  text?: { source: string; bytes: number };
  tokenizer?: { name: string; size: number };
  /** Numbers of tokens. */
  tokens?: { training: number; validation: number };
  /** {"--width": 128, …} */
  options?: Record<string, unknown>;
  parameters?: { name: string; shape: number[]; count: number; trainable: boolean }[];
}

/** One entry a step, or for each n steps if there are more than 4,096. */
export interface Curves {
  step: number[];
  /** The mean loss of the step's batch. */
  loss: Numbers;
  learning_rate?: Numbers;
  /** Units a second; in a loop of one's own, lookups in the first table. */
  speed?: Numbers;
  /** Rows of the first table with a gradient in this step; where it is dense, that were looked up. */
  rows?: Numbers;
}

/** Of all gradients together, now and then: before clipping and after it. */
export interface Norms {
  step: number[];
  norm: Numbers;
  clipped: Numbers;
}

export interface Evaluation {
  steps: number;
  /** Null where only the other one was computed, at the end. */
  training_loss: number | null;
  /** Null without data for validation. */
  validation_loss: number | null;
  /** Shares of right answers, if they were computed. */
  training_accuracy?: number;
  validation_accuracy?: number;
}

/**
 * A table at one time. It lists the rows that had a gradient (where dense, that were looked up) since
 * they were listed: all that are listed for the first time, and others up to 2,000 rows, those with most
 * such steps first. The others are as in the frame before, or never had one. Rows that moved without a
 * gradient are listed in the last frame of a run that has ended, which lists all rows.
 */
export interface Frame {
  /** When the frame was taken. */
  step: number;
  rows: number[];
  /**
   * By the tapes of the run since first_step; of several ranks, by those of the first one. A row of
   * positions counts once for each batch.
   */
  lookups: number[];
  /** Steps in which the row had a gradient; where that is dense, that looked it up. */
  steps: number[];
  /** The last one of these. */
  last: number[];
  /** The root of the sum of squares of the row's gradients in all steps. */
  norm: number[];
  /**
   * The distance of the row from where it was at first_step; of a table in a file where
   * coupled_decay, from where it was before its first gradient.
   */
  moved: number[];
}

/** A step that moved a row. */
export interface Reason {
  step: number;
  lookups: number;
  /** That of the row's gradient, before clipping. */
  norm: number;
  moved: number;
  /** Of tokens: ids around a lookup. */
  text?: number[];
  /** Where among these the row's is. */
  place?: number;
}

export interface RowTable {
  /** "token.weight" */
  name: string;
  /** What rows stand for: "token", "position", "distance", "n-gram", what a layer says, or "row". */
  kind: string;
  /** True if its rows are the tokens of the vocabulary. */
  tokens?: boolean;
  rows: number;
  width: number;
  /**
   * What each row stands for, where that is not its number: "8 to 11"; of n-grams those that fell
   * into it, the most frequent first: "the dog | of a | 3 more"; "" for nothing.
   */
  labels?: string[];
  /**
   * Of a table that is shown in part: the ids of its rows, which are numbered from 0 here, those that
   * moved farthest first. Of one with more than 262,144 rows, they are the rows with a gradient; of
   * the table of a memory of n-grams, at most 2,000.
   */
  ids?: number[];
  /** Some 20 at equal distances, or more where the length of the run was not known, and one for the end. */
  frames: Frame[];
  /**
   * Rows that moved in steps without a gradient, after their first one: distances, added up over
   * each stretch of such steps, by momentum (where coupled_decay, by both) and by weight decay. Not
   * for dense gradients.
   */
  idle?: { rows: number[]; momentum: number[]; decay: number[] };
  /**
   * Why rows moved, at most 2,000 that moved farthest: the sum of the distances moved in steps with a
   * gradient, without weight decay, and the at most three steps that moved each farthest.
   */
  reasons?: { rows: number[]; path: number[]; steps: Reason[][] };
  /**
   * Whether the table has dense gradients, too, as a tied head gives: then all rows have one in each
   * step, and only those that were looked up are listed.
   */
  dense?: boolean;
  /** If weight decay moves rows that never had a gradient: what is left of them, 1 for all. */
  decayed?: number;
  /**
   * Whether decay is a part of the gradient (Adam, RMSprop and Adagrad with weight decay): rows that
   * never had one of their own move, too, by an amount that is not followed.
   */
  coupled_decay?: boolean;
}

/** The text at the end of the run, token by token; at most 24,000 tokens. */
export interface Passage {
  ids: number[];
  /** How many of them the model was trained on: they come first. */
  training: number;
  /** Numbers of tokens that are not in ids. */
  left_out?: { training: number; validation: number };
  /**
   * Of predicting each token from those before it; null for the first one to train on and the first
   * one for validation.
   */
  loss: Numbers;
  /** The five likeliest tokens in the place of each. */
  expected: number[][];
  /** Their probabilities, in thousandths. */
  probability: number[][];
  /**
   * Of a model with memories of n-grams, in the order of the blocks that they are in front of: how far
   * the gate is open where the model reads the token, in thousandths; null for the last token to train
   * on and the last one for validation, which are not read.
   */
  gates?: { block: number; values: Numbers }[];
}

/** Of the tokens that had most lookups, at most 2,000. */
export interface Embeddings {
  ids: number[];
  /** The nearest ones of each by cosine, at most 8. */
  neighbours: number[][];
  /** Their cosines, from −100 to 100. */
  cosines: number[][];
  /** The two directions of most variance. */
  x: number[];
  y: number[];
  /** The shares of x and y. */
  variance: [number, number];
}

export interface Report {
  /** "rowgrad report 2" */
  format: string;
  run: Run;
  /** Of a model of tokens: the text of each id; bytes that are not UTF-8 are shown as <0xNN>. */
  vocabulary: string[];
  /** True if tokens are words, which decoding joins with spaces. */
  words?: boolean;
  /** What losses are measured in, if that is known. */
  loss_unit?: string;
  curves?: Curves;
  norms?: Norms;
  evaluations?: Evaluation[];
  /** Losses of models that know nothing, or only frequencies. */
  baselines?: { uniform: number; unigram: number };
  samples?: { steps: number; text: string }[];
  /** Tables with row gradients, that of tokens first. */
  tables?: RowTable[];
  text?: Passage;
  embeddings?: Embeddings;
  /** The weights on a prompt: [layer][head][query][key], in thousandths. */
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
    /** What the page shows, for those who want to look at it with the browser's tools. */
    rowgradReport: Record<string, unknown>;
  }
}
