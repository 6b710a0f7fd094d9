#!/usr/bin/env bash
# Load test over HTTP: the daemon, two floors and `wasmtime serve`.
#
#   tests/benches/http.sh [SECONDS] [ROUNDS]
#
# Needs `wrk` and a package build (`cargo build --profile dist --workspace`). The floors (hyper alone, and hyper with a fresh
# instance in bare wasmtime) are measured if `cargo bench --profile dist --workspace --no-run --bench call` has built them. With WASMTIME set
# to a `wasmtime` 48, `wasmtime serve` is measured too; its `wasi:http/proxy` component is built with the tests. Prints the
# median round by calls per second, with the servers alternating, and the CPU time of a call by thread. Uses loopback only.
# With INSTRUCTIONS set, the instructions of a call in user mode by thread and module come last (needs `cc`, root, and programs with
# symbols: `CARGO_PROFILE_DIST_STRIP=none`). TOOLGATE is another program to measure, SETTINGS are further lines of its configuration,
# and COMPILER is a program that compiles the plugins before, for one that cannot.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-3}
rounds=${2:-5}
target=${CARGO_TARGET_DIR:-target}
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT

echo_wasm=$(find "$target/guests" -name echo.wasm -path '*guest*' -not -path '*/deps/*' | head -n 1)
[ -n "$echo_wasm" ] || { echo "no echo.wasm: run cargo build -p toolgate-tests first" >&2; exit 1; }

# A session makes more calls here than a model would.
printf '%s\n[calls]\nrounds_per_turn = 1000000\nrounds_per_session = 1000000\n[consent]\nrequired = false\n' "${SETTINGS:-}" >"$work/config.toml"
# Starts a program on the data.
start() {
  RUST_BACKTRACE=0 "$1" serve --config "$work/config.toml" --data "$work/data" --listen 127.0.0.1:0 2>"$work/log" &
  daemon=$!
  until address=$(sed -n 's/.*serving.*address=\([0-9.:]*\).*/\1/p' "$work/log" | head -n 1) && [ -n "$address" ]; do
    kill -0 $daemon || { cat "$work/log" >&2; exit 1; }
  done
  base=http://$address
  token=$(cat "$work/data/operator.token")
}
ask() { curl -sS --fail-with-body -H "Authorization: Bearer $token" "$@"; }
load_echo() {
  ask -X PUT -H 'Content-Type: application/wasm' --data-binary "@$echo_wasm" "$base/v1/plugins/echo?confirm=hints" >/dev/null
  # A first start serves before every built-in plugin is compiled.
  while ask "$base/readyz" | grep -q '"compiling":\["'; do sleep 0.3; done
}
arguments='{"text":"The quick brown fox jumps over the lazy dog, twice or so.","number":1234}'
if [ -n "${COMPILER:-}" ]; then
  start "$COMPILER" && load_echo
  kill $daemon && wait $daemon
fi
start "${TOOLGATE:-$target/dist/toolgate}" && load_echo
put() { ask -X PUT -H 'If-None-Match: *' -H 'Content-Type: application/json' -d "$2" "$base$1" >/dev/null; }
put /v1/orgs/acme '{}'
put /v1/orgs/acme/policy '{"enabled":["echo/*"]}'
put /v1/orgs/acme/agents/bot '{"enabled":["echo/*"],"autonomy":"autonomous"}'
# Each round opens and ends its own sessions, since a session keeps the results of its calls.
open_sessions() {
  rm -f "$work/sessions"
  for _ in $(seq 64); do
    ask -H 'Content-Type: application/json' -d '{"agent":"acme/bot"}' -w '\n' "$base/v1/sessions" |
      sed 's/.*"session":"\([^"]*\)".*/\1/' >>"$work/sessions"
  done
}
end_sessions() { ask -X DELETE $(sed "s|^|$base/v1/sessions/|" "$work/sessions") >/dev/null; }
open_sessions
cat >"$work/calls.lua" <<LUA
local at, requests = 0, {}
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer $token"
local arguments = '$arguments'
-- Built once, to keep the load of wrk low.
function init()
  local body = '{"calls":[{"tool":"call_echo_echo","arguments":' .. arguments .. '}]}'
  for session in io.lines("$work/sessions") do
    requests[#requests + 1] = wrk.format(nil, "/v1/sessions/" .. session .. "/calls", nil, body)
  end
end
function request()
  at = at % #requests + 1
  return requests[at]
end
LUA
# Results are checked once before and once after, since checking each would be most of the load.
expect_good() {
  ask -H 'Content-Type: application/json' -d "{\"calls\":[{\"tool\":\"call_echo_echo\",\"arguments\":$arguments}]}" \
    "$base/v1/sessions/$(head -n 1 "$work/sessions")/calls" | grep -q '"status":"ok"'
}
cpu() { awk '{print $14 + $15}' "/proc/$1/stat"; }
# One round: calls per second, median and 99th percentile, server CPU per call in µs.
load() { # PID SCRIPT CONNECTIONS URL
  local before after result calls
  before=$(cpu "$1")
  result=$(wrk -t1 "-c$3" "-d${seconds}s" --latency -s "$2" "$4")
  after=$(cpu "$1")
  if printf '%s\n' "$result" | grep -E 'NOT OK|Non-2xx' >&2; then return 1; fi
  calls=$(printf '%s' "$result" | sed -n 's/ *\([0-9]*\) requests in.*/\1/p')
  printf '%s\n' "$result" | awk -v t=$((after - before)) -v n="$calls" -v hz="$(getconf CLK_TCK)" \
    '$1 == "50%" {p50 = $2} $1 == "99%" {p99 = $2} $1 == "Requests/sec:" {rate = $2} END {print rate, p50, p99, t / hz * 1e6 / n}'
}
# The median round of a server.
report() { # NAME FILE
  sort -n "$2" | awk -v name="$1" -v middle=$(((rounds + 1) / 2)) \
    'NR == middle {printf "%-46s %7.0f calls/s, p50 %s, p99 %s, server CPU %.1f µs a call\n", name, $1, $2, $3, $4}'
}

declare -A pid script url
servers=(toolgate)
pid[toolgate]=$daemon script[toolgate]=$work/calls.lua url[toolgate]=$base
floors=$({ find "$target/dist/deps" -name 'call-*' -perm -100 -type f -printf '%T@ %p\n' 2>/dev/null || true; } | sort -n | tail -n 1 | cut -d' ' -f2)
for floor in ${floors:+echo bare}; do
  if [ $floor = echo ]; then name="hyper and JSON alone"; else name="hyper, JSON, bare wasmtime, fresh instance"; fi
  RUST_BACKTRACE=0 "$floors" --bench -- serve-$floor >"$work/$floor" &
  servers+=("$name")
  until [ -s "$work/$floor" ]; do kill -0 $!; done
  pid[$name]=$! script[$name]=$work/calls.lua url[$name]=http://$(cat "$work/$floor")
  curl -sf -d "{\"calls\":[{\"arguments\":$arguments}]}" "${url[$name]}" | grep -q '"number":1234'
done
if [ -n "${WASMTIME:-}" ]; then
  proxy=$(find "$target/guests" -name proxy.wasm -path '*guest*' -not -path '*/deps/*' | head -n 1)
  # The same work for wrk as above.
  cat >"$work/proxy.lua" <<LUA
local made
function init() made = wrk.format("POST", "/", nil, [[$arguments]]) end
function request() return made end
LUA
  port=7399
  for reuse in 1 1000; do
    name="wasmtime serve, instance used $reuse times"
    RUST_BACKTRACE=0 "$WASMTIME" serve -S cli --max-instance-reuse-count $reuse --addr 127.0.0.1:$port "$proxy" >/dev/null 2>&1 &
    servers+=("$name")
    pid[$name]=$! script[$name]=$work/proxy.lua url[$name]=http://127.0.0.1:$port/
    until curl -s -o /dev/null "${url[$name]}"; do kill -0 "${pid[$name]}"; done
    curl -sf -d "$arguments" "${url[$name]}" | grep -q '"number":1234'
    port=$((port + 1))
  done
fi

expect_good
# Alternating, so that all share the machine's load.
for round in $(seq 0 $rounds); do
  for at in "${!servers[@]}"; do
    name=${servers[$at]}
    for connections in 1 16 64; do
      [ "$name" != toolgate ] || { end_sessions; open_sessions; }
      row=$(load "${pid[$name]}" "${script[$name]}" $connections "${url[$name]}")
      # The first round is a warm-up.
      [ "$round" = 0 ] || printf '%s\n' "$row" >>"$work/$at.$connections"
    done
  done
done
for at in "${!servers[@]}"; do
  for connections in 1 16 64; do
    [ ! -e "$work/$at.$connections" ] || report "${servers[$at]}, $connections connections" "$work/$at.$connections"
  done
done
# CPU ticks by thread of the daemon, with threads of one name together.
ticks() {
  for task in /proc/$daemon/task/*; do awk '{print $2, $14 + $15}' "$task/stat"; done |
    awk '{sum[$1] += $2} END {for (name in sum) print name, sum[name]}' | sort
}
end_sessions
open_sessions
ticks >"$work/before"
calls=$(wrk -t1 -c64 "-d${seconds}s" -s "$work/calls.lua" "$base" | sed -n 's/ *\([0-9]*\) requests in.*/\1/p')
ticks | join -a 1 - "$work/before" | awk -v n="$calls" -v hz="$(getconf CLK_TCK)" \
  '$2 > $3 {printf "%-20s %5.1f µs a call\n", $1, ($2 - $3) / hz * 1e6 / n}'
expect_good
not_ok=$(ask "$base/v1/audit?status=error&limit=1" | grep -c '"sequence"' || true)
[ "$not_ok" = 0 ] || { echo "some calls failed" >&2; exit 1; }
printf 'resident after it: %s\n' "$(sed -n 's/VmRSS:[[:space:]]*//p' /proc/$daemon/status)"

# Instructions of 10 calls on one connection, by thread and module.
[ -n "${INSTRUCTIONS:-}" ] || exit 0
cc -O2 -o "$work/step" tests/benches/instructions/step.c
printf '{"calls":[{"tool":"call_echo_echo","arguments":%s}]}' "$arguments" >"$work/body"
for at in "${!servers[@]}"; do
  name=${servers[$at]} process=${pid[${servers[$at]}]}
  [ "$name" != toolgate ] || url[$name]=$base/v1/sessions/$(head -n 1 "$work/sessions")/calls
  program=$(readlink -f "/proc/$process/exe")
  timeout --preserve-status 10 "$work/step" "$process" "$program" tokio-rt-worker audit-writer >"$work/idle"
  "$work/step" "$process" "$program" tokio-rt-worker audit-writer >"$work/counts" &
  stepper=$!
  for _ in $(seq 10); do printf 'url = "%s"\noutput = /dev/null\n' "${url[$name]}"; done >"$work/urls"
  curl -sS --fail -H "Authorization: Bearer $token" -H 'Content-Type: application/json' --data-binary "@$work/body" -K "$work/urls"
  kill $stepper && wait $stepper
  nm --demangle --defined-only "$program" | sort >"$work/symbols"
  printf '\n%s, instructions a call\n' "$name"
  awk -v calls=10 -f tests/benches/instructions/modules.awk "$work/symbols" "$work/idle" "$work/counts" | sort -k1,1 -k3,3nr
done
