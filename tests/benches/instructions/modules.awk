# Sums the counts of `step` by thread and module. Reads `nm --demangle --defined-only PROGRAM | sort`, then the counts, sorted by offset.
#
#   awk -v calls=N -f modules.awk SYMBOLS COUNTS

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
NR == FNR {
  if ($2 !~ /^[tTwW]$/) next
  starts[symbols] = hex($1)
  sub(/^[0-9a-f]+ . /, "")
  modules[symbols++] = module_of($0)
  next
}
{
  where = $2
  if (where == "program") {
    offset = hex($3)
    low = 0; high = symbols - 1
    while (low < high) { middle = int((low + high + 1) / 2); if (starts[middle] <= offset) low = middle; else high = middle - 1 }
    where = modules[low]
    distinct[$1]++
  }
  sum[$1 " " where] += $4
  total[$1] += $4
}
END {
  for (key in sum) if (sum[key] / calls >= 100) printf "%-24s %-28s %9.0f\n", substr(key, 1, index(key, " ") - 1), substr(key, index(key, " ") + 1), sum[key] / calls
  for (thread in total) if (total[thread] / calls >= 100) printf "%-24s %-28s %9.0f (%d different)\n", thread, "TOTAL", total[thread] / calls, distinct[thread]
}
