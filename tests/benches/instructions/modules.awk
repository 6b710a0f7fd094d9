# Instructions of a call by thread and module: what `step` counted during N calls, less what it counts in as long a time without calls.
# SYMBOLS is the output of `nm --demangle --defined-only PROGRAM | sort`.
#
#   awk -v calls=N -f modules.awk SYMBOLS COUNTS-WITHOUT-CALLS COUNTS

# The crate of a symbol, with its module where the crate is Toolgate's.
function module_of(symbol, path) {
  path = symbol
  gsub(/^[<&*(\[]+|^(mut|dyn|impl|const) /, "", path)
  gsub(/^[<&*(\[]+|^(mut|dyn|impl|const) /, "", path)
  if (match(path, /^toolgate::[a-z_]+/) || match(path, /^[a-z_0-9]+/)) return substr(path, RSTART, RLENGTH)
  return "other"
}
function hex(text, at, value) {
  value = 0
  for (at = 1; at <= length(text); at++) value = value * 16 + index("0123456789abcdef", substr(text, at, 1)) - 1
  return value
}
FNR == 1 { file++ }
file == 1 {
  if ($2 !~ /^[tTwW]$/) next
  starts[symbols] = hex($1)
  sub(/^[0-9a-f]+ . /, "")
  modules[symbols++] = module_of($0)
  next
}
$1 == "SECONDS" { seconds[file] = $2; next }
{
  where = $2
  if (where == "program") {
    offset = hex($3)
    low = 0; high = symbols - 1
    while (low < high) { middle = int((low + high + 1) / 2); if (starts[middle] <= offset) low = middle; else high = middle - 1 }
    where = modules[low]
    if (file == 3) distinct[$1]++
  }
  # The counts without calls come first, with a negative sign and for one second.
  count = file == 3 ? $4 : -$4 / seconds[2]
  if (file == 3) { sum[$1 " " where] += count; total[$1] += count } else { idle[$1 " " where] += count; idle_total[$1] += count }
}
END {
  for (key in sum) sum[key] += idle[key] * seconds[3]
  for (thread in total) total[thread] += idle_total[thread] * seconds[3]
  for (key in sum) if (sum[key] / calls >= 100) printf "%-24s %-28s %9.0f\n", substr(key, 1, index(key, " ") - 1), substr(key, index(key, " ") + 1), sum[key] / calls
  for (thread in total) if (total[thread] / calls >= 100) printf "%-24s %-28s %9.0f (%d different)\n", thread, "TOTAL", total[thread] / calls, distinct[thread]
}
