// The types of the data that README.md describes, and of what the page uses of dygraphs.

export type Colour = [red: number, green: number, blue: number];

/** Numbers; null stands for one that is not finite. */
export type Numbers = (number | null)[];

export interface Run {
  program?: string;
  command?: string;
  started?: string;
  seconds: number;
  report_seconds?: number;
  state: "running" | "stopped" | "finished";
  fault?: string;
  first_step: number;
  unit?: string;
  machine?: string;
  text?: { source: string; bytes: number };
  tokenizer?: { name: string; size: number };
  tokens?: { training: number; validation: number };
  options?: Record<string, unknown>;
  parameters?: { name: string; shape: number[]; count: number; trainable: boolean }[];
}

export interface Curves {
  step: number[];
  loss: Numbers;
  learning_rate?: Numbers;
  speed?: Numbers;
  rows?: Numbers;
}

export interface Norms {
  step: number[];
  norm: Numbers;
  clipped: Numbers;
}

export interface Evaluation {
  steps: number;
  training_loss: number | null;
  validation_loss: number | null;
}

export interface Frame {
  step: number;
  rows: number[];
  lookups: number[];
  steps: number[];
  last: number[];
  norm: number[];
  moved: number[];
}

/** A step that moved a row, and the tokens around a lookup in it. */
export interface Reason {
  step: number;
  lookups: number;
  norm: number;
  moved: number;
  text?: number[];
  place?: number;
}

export interface RowTable {
  name: string;
  kind: string;
  rows: number;
  width: number;
  labels?: string[];
  ids?: number[];
  frames: Frame[];
  idle?: { rows: number[]; momentum: number[]; decay: number[] };
  reasons?: { rows: number[]; path: number[]; steps: Reason[][] };
  dense?: boolean;
  decayed?: number;
  coupled_decay?: boolean;
}

export interface Passage {
  ids: number[];
  training: number;
  left_out?: { training: number; validation: number };
  loss: Numbers;
  expected: number[][];
  probability: number[][];
  gates?: { block: number; values: Numbers }[];
}

export interface Embeddings {
  ids: number[];
  neighbours: number[][];
  cosines: number[][];
  x: number[];
  y: number[];
  variance: [number, number];
}

export interface Report {
  format: string;
  run: Run;
  vocabulary: string[];
  curves?: Curves;
  norms?: Norms;
  evaluations?: Evaluation[];
  baselines?: { uniform: number; unigram: number };
  samples?: { steps: number; text: string }[];
  tables?: RowTable[];
  text?: Passage;
  embeddings?: Embeddings;
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
