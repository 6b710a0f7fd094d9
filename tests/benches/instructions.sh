#!/usr/bin/env bash
# Instructions of a call in user mode, of all threads of the process, as callgrind counts them: by the dispatcher in process, and
# over HTTP on one connection. A count is that of 2,000 calls less that of 1,000, so that the start is not in it.
#
#   tests/benches/instructions.sh [ROUNDS]
#
# Needs `valgrind`, and a build of the benchmark: `cargo bench --profile dist --workspace --no-run --bench call`. PROGRAM is another build
# of it to count. Prints the median of the rounds, with the least and the most.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-3}
newest() { find "${CARGO_TARGET_DIR:-target}/dist/deps" -name 'call-*' -perm -100 -type f -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2; }
program=${PROGRAM:-$(newest)}
# Valgrind has no room for the memories of many instances.
count() { # INTERFACE CALLS
  valgrind --tool=callgrind --smc-check=all-non-file --callgrind-out-file=/dev/null "$program" --bench -- \
    instructions "$1" "calls=$2" instances=16 2>&1 | sed -n 's/.*Collected : *\([0-9]*\).*/\1/p'
}
for interface in dispatcher http; do
  for _ in $(seq "$rounds"); do
    few=$(count "$interface" 1000)
    echo $((($(count "$interface" 2000) - few) / 1000))
  done | sort -n | awk -v interface="$interface" '{count[NR] = $1} END {printf "%-12s %8d instructions a call (%d to %d in %d rounds)\n", interface, count[int((NR + 1) / 2)], count[1], count[NR], NR}'
done
