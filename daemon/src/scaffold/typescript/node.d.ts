// The modules of Node that the tests use. A component has none of them.
declare module "node:assert/strict";
declare module "node:test";
