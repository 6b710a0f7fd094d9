// URLs of the web (WHATWG URL): `build.mjs` puts this file into a component that uses one of its names.
export { default as URL } from "core-js-pure/web/url.js";
export { default as URLSearchParams } from "core-js-pure/web/url-search-params.js";
