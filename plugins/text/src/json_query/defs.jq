# What jq knows and jaq does not, and what jaq does in another way.

def getpath($path): reduce $path[] as $key (.; if _fits($key) then . else _indexed($key) end | .[$key]);
def setpath($path; $value): getpath($path) = $value;
def pick(f): . as $all | reduce path(f) as $path (null; setpath($path; $all | getpath($path)));
def del(f): delpaths([path(f)]);

# The first that is not null, be it false. A key that is written as null is one as well.
def _entry_key:
  if .key != null then .key
  else ([.k, .name, .Name, .K, .Key] | map(values)) as $found
    | if $found != [] then $found[0]
      elif any(("key", "k", "name", "Name", "K", "Key") as $name | has($name); .) then null
      else error("from_entries needs a key in each entry, as {\"key\": \"a\", \"value\": 1}, and there is \(tojson)") end
  end | tostring;
def _entry_value: if has("value") then .value elif has("v") then .v elif has("Value") then .Value else .V end;
def from_entries: reduce (.[] | {(_entry_key): _entry_value}) as $x ({}; . + $x);
def with_entries(f): to_entries | map(f) | from_entries;

def join($separator):
  reduce .[] as $part (null;
    (if . == null then "" else . + $separator end)
    + ($part | if . == null then "" elif isboolean or isnumber then tostring else . end)
  ) // "";

def flatten: [.[] | recurse(arrays[]) | select(isarray | not)];
def flatten($depth):
  if $depth < 0 then error("flatten depth must not be negative")
  else [.[] | if isarray and $depth > 0 then flatten($depth - 1)[] else . end] end;

def abs:
  if isnumber | not then error("\(type) \(tojson) has no absolute value")
  elif . < 0 then -. else . end;
def tonumber:
  if isnumber then .
  else . as $text | (try fromjson catch null) | if isnumber then . else error("cannot parse as number: \($text | tojson)") end
  end;

def @text: tostring;
def @sh:
  [if isarray then .[] end | if isstring then "'\(escape_sh)'"
   elif isarray or isobject then error("@sh takes no \(type) within a row") else tostring end]
  | join(" ");

def @csv:
  [.[] | if type == "string" then "\"" + (split("\"") | join("\"\"")) + "\""
         elif . == null then ""
         elif type == "array" or type == "object" then error("@csv takes no \(type) within a row")
         else tostring end]
  | join(",");

def @tsv:
  [.[] | if type == "string" then
           (split("\\") | join("\\\\") | split("\t") | join("\\t") | split("\n") | join("\\n") | split("\r") | join("\\r"))
         elif . == null then ""
         elif type == "array" or type == "object" then error("@tsv takes no \(type) within a row")
         else tostring end]
  | join("\t");

def trimstr($affix): ltrimstr($affix) | rtrimstr($affix);
def toarray: if type == "array" then . else [.] end;
def leaf_paths: paths(type != "array" and type != "object");
def date: todate;
def IN(source): any(source == .; .);
def IN(left; right): any(left == right; .);
def INDEX(source; key): reduce source as $row ({}; .[$row | key | tostring] = $row);
def INDEX(key): INDEX(.[]; key);

# As in jq, a failure on an object.
def first: _indexed(0) | .[0];
def last: _indexed(-1) | .[-1];
def nth($n): _indexed($n) | .[$n];
def nth($n; f):
  if $n < 0 then error("nth needs a number from 0 on, and there is \($n)") else first(skip($n; f)) end;

# As in jq, nothing is in null.
def indices($x): if . == null then null else _indices($x) end;
def index($x): indices($x) | .[0];
def rindex($x): indices($x) | .[-1];
