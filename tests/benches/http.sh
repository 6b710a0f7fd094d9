#!/usr/bin/env bash
# Calls over HTTP under load: our daemon, and beside it `wasmtime serve` where a component for it is given.
#
#   tests/benches/http.sh [SECONDS]
#
# Needs `wrk`, and a release build (`cargo build --release`). To measure `wasmtime serve` in the same run, set WASMTIME
# to a `wasmtime` 48 and PROXY to a component of the world `wasi:http/proxy`. Talks to loopback only, and ends by itself.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-5}
target=${CARGO_TARGET_DIR:-target}
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT

echo_wasm=$(find "$target/guests" -name echo.wasm -path '*guest*' -not -path '*/deps/*' | head -n 1)
[ -n "$echo_wasm" ] || { echo "no echo.wasm: run cargo build -p toolgate-tests first" >&2; exit 1; }

RUST_BACKTRACE=0 "$target/release/toolgate" serve --data "$work/data" --listen 127.0.0.1:0 2>"$work/log" &
daemon=$!
until address=$(sed -n 's/.*serving.*address=\([0-9.:]*\).*/\1/p' "$work/log" | head -n 1) && [ -n "$address" ]; do
  kill -0 $daemon || { cat "$work/log" >&2; exit 1; }
done
token=$(cat "$work/data/operator.token")
ask() { curl -sf -H "Authorization: Bearer $token" "$@"; }
base=http://$address
ask -X PUT -H 'If-None-Match: *' -H 'Content-Type: application/json' -d '{}' "$base/v1/orgs/acme" >/dev/null
ask -X PUT -H 'Content-Type: application/wasm' --data-binary "@$echo_wasm" "$base/v1/plugins/echo" >/dev/null
ask -X PUT -H 'If-None-Match: *' -H 'Content-Type: application/json' -d '{"enabled":["echo/*"]}' \
  "$base/v1/orgs/acme/agents/bot" >/dev/null
# A session remembers the ids of its calls, so the load is spread over many.
for _ in $(seq 64); do
  ask -H 'Content-Type: application/json' -d '{"agent":"acme/bot"}' "$base/v1/sessions" |
    sed 's/.*"session":"\([^"]*\)".*/"\1",/'
done >"$work/sessions"
cat >"$work/calls.lua" <<LUA
local sessions = { $(tr -d '\n' <"$work/sessions") }
local at, bad = 0, 0
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer $token"
local body = '{"calls":[{"tool":"call_echo_echo","arguments":{"text":"The quick brown fox jumps over the lazy dog, twice or so.","number":1234}}]}'
function request()
  at = at + 1
  return wrk.format(nil, "/v1/sessions/" .. sessions[at % #sessions + 1] .. "/calls", nil, body)
end
function response(status, _, answer)
  if status ~= 200 or not answer:find('"status":"ok"', 1, true) then bad = bad + 1 end
  if bad == 1 then print("NOT OK: " .. answer) bad = bad + 1 end
end
LUA
cpu() { awk '{print $14 + $15}' "/proc/$1/stat"; }
for connections in 1 16 64; do
  before=$(cpu $daemon)
  result=$(wrk -t1 -c$connections -d"${seconds}s" --latency -s "$work/calls.lua" "$base")
  after=$(cpu $daemon)
  calls=$(printf '%s' "$result" | sed -n 's/ *\([0-9]*\) requests in.*/\1/p')
  printf '%s\n' "$result" | grep -E 'NOT OK|Non-2xx' || true
  printf 'toolgate, %2d connections: %7.0f calls/s, p50 %s, p99 %s, server CPU %.1f µs a call\n' "$connections" \
    "$(printf '%s' "$result" | sed -n 's/Requests\/sec: *//p')" \
    "$(printf '%s' "$result" | sed -n 's/ *50% *//p')" "$(printf '%s' "$result" | sed -n 's/ *99% *//p')" \
    "$(awk -v t=$((after - before)) -v n="$calls" -v hz="$(getconf CLK_TCK)" 'BEGIN {print t / hz * 1e6 / n}')"
done
printf 'resident after it: %s\n' "$(sed -n 's/VmRSS:[[:space:]]*//p' /proc/$daemon/status)"

if [ -n "${WASMTIME:-}" ] && [ -n "${PROXY:-}" ]; then
  for reuse in 1 1000; do
    RUST_BACKTRACE=0 "$WASMTIME" serve --max-instance-reuse-count $reuse --addr 127.0.0.1:7399 "$PROXY" >/dev/null 2>&1 &
    serve=$!
    until curl -s -o /dev/null http://127.0.0.1:7399/; do kill -0 $serve; done
    wrk -t1 -c16 -d"${seconds}s" --latency http://127.0.0.1:7399/ |
      sed -n "s/Requests\/sec: */wasmtime serve, instance used $reuse times, 16 connections, calls\/s: /p"
    kill $serve
    wait $serve 2>/dev/null || true
  done
fi
