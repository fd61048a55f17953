import js from "@eslint/js";
import globals from "globals";

const rules = {
  ...js.configs.recommended.rules,
  eqeqeq: "error",
  "no-var": "error",
  "prefer-const": "error",
  "no-eval": "error",
  "no-implied-eval": "error",
  // Text from a run is data and must not become markup.
  "no-restricted-properties": [
    "error",
    ...["innerHTML", "outerHTML", "insertAdjacentHTML", "write"].map((property) => ({ property })),
  ],
};

export default [
  { ignores: ["**/node_modules/**", "**/out/**"] },
  {
    files: ["**/examples/rowgrad/report/page/*.js"],
    languageOptions: { globals: { ...globals.browser, Dygraph: "readonly" } },
    rules,
  },
  {
    files: ["**/*.mjs", "**/tests/report/*.js"],
    languageOptions: { globals: { ...globals.node, ...globals.browser } },
    rules,
  },
];
