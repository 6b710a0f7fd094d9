#!/usr/bin/env bash
# Measures the runbook "Restore" on an empty machine: the seconds from `serve` to the answer of the first call, for a program with the
# compiled plugins of a package and for one that compiles them.
#   tests/benches/restore.sh target/dist/toolgate
set -euo pipefail
program="$(realpath "$1")"
folder="$(mktemp --directory)"
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
mkdir -p package/bin plain/bin
cp "$program" package/bin/toolgate
cp "$program" plain/bin/toolgate
package/bin/toolgate compile --package package/lib/toolgate 2>/dev/null
export TOOLGATE_SERVER=http://127.0.0.1:7391

# Starts the daemon of the folder `$1` on the data `$2`.
start() { "$1/bin/toolgate" serve --data "$2" --listen 127.0.0.1:7391 2>"$1.log" & }
stop() { kill "$!" && wait "$!" || true; }
command() { package/bin/toolgate "$@" --token-file "$data/operator.token"; }
first_call() { command call acme/bot time/now '{}' >/dev/null; }

data=first
start package first
until command status >/dev/null 2>&1; do sleep 0.02; done
command org put acme >/dev/null
echo '{"enabled": "*"}' >policy.json
command policy put acme policy.json >/dev/null
command agent put acme/bot --enabled 'time/*' >/dev/null
first_call
stop
package/bin/toolgate backup b.tar.gz --data first --with-keys >/dev/null
for kind in package plain; do
  data="restored-$kind"
  "$kind/bin/toolgate" restore b.tar.gz --data "$data" >/dev/null
  begin="$(date +%s%N)"
  start "$kind" "$data"
  until first_call 2>/dev/null; do sleep 0.02; done
  echo "$kind: $((($(date +%s%N) - begin) / 1000000)) ms from \`serve\` to the answer of the first call"
  stop
done
