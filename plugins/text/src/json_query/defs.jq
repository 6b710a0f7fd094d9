# What jq knows and jaq does not.

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
