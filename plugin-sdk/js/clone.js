// `structuredClone` of the web: `build.mjs` puts this file into a component that uses it.
import { deserialize, serialize } from "@ungap/structured-clone";

export const structuredClone = (value) => deserialize(serialize(value));
