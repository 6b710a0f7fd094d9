#!/usr/bin/env bash
# Instructions of a call in user mode, of all threads of the process, as QEMU counts them: by the dispatcher in process, and
# over HTTP on one connection. A count is that of 2,000 calls less that of 1,000, so that the start is not in it.
#
#   tests/benches/instructions.sh [ROUNDS]
#
# Needs `qemu-user`, `cc`, and a build of the benchmark: `cargo bench --profile dist --workspace --no-run --bench call`. PROGRAM is another
# build of it to count. Prints the median of the rounds, with the least and the most.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-3}
target=${CARGO_TARGET_DIR:-target}
newest() { find "$target/dist/deps" -name 'call-*' -perm -100 -type f -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2; }
program=${PROGRAM:-$(newest)}
plugin=$target/instructions.so
cc -O2 -shared -fPIC -fvisibility=hidden -o "$plugin" tests/benches/instructions.c
# Valgrind cannot reserve the memories of the instances. `max` has the instructions that wasmtime compiles for.
count() { # INTERFACE CALLS
  "qemu-$(uname -m)" -cpu max -plugin "$plugin" "$program" --bench -- instructions "$1" "calls=$2" instances=4 2>&1 |
    sed -n 's/^instructions: //p'
}
for interface in dispatcher http; do
  for _ in $(seq "$rounds"); do
    few=$(count "$interface" 1000)
    many=$(count "$interface" 2000)
    echo $(((many - few) / 1000))
  done | sort -n | awk -v interface="$interface" '{count[NR] = $1} END {printf "%-12s %8d instructions a call (%d to %d in %d rounds)\n", interface, count[int((NR + 1) / 2)], count[1], count[NR], NR}'
done
