// A plugin for `tests/languages.rs`: what the build finds.
import { plugin, t, tool } from "../toolgate/sdk.js";

declare const Buffer: any;
function size(text: string): number {
  return Buffer.from(text).length;
}

export default plugin({
  name: "my-ts-weather",
  version: "0.2.0",
  tools: [
    tool({
      name: "raise",
      description: "Raises.",
      input: { text: t.string("A text") },
      output: t.integer("Its size"),
      run: ({ text }) => (text ? size(text) : 0),
    }),
  ],
});
