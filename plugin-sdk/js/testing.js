// For tests in Node: replaces the host's functions as `useHost` of the SDK does, also for `fetch`.
import { fetch } from "./fetch.js";
import { useHost as useHostOfSdk } from "./sdk.js";

/** `useHost({ request: async ({ method, url, headers, body }) => ({ status: 200, headers: {}, body: "{}" }) })` */
export function useHost(functions) {
  useHostOfSdk(functions);
  globalThis.fetch = fetch;
}
