import type { Host } from "./sdk.js";

/** Replaces the host's functions in a test, also for `fetch`. */
export function useHost(functions: Host): void;
