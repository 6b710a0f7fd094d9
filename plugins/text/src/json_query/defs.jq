# What jq knows and jaq does not, and what jaq does in another way.

def getpath($path): reduce $path[] as $key (.; if _fits($key) then . else _indexed($key) end | .[$key]);
def setpath($path; $value): getpath($path) = $value;
def pick(f): . as $all | reduce path(f) as $path (null; setpath($path; $all | getpath($path)));
def del(f): delpaths([path(f)]);

def with_entries(f): to_entries | map(f) | from_entries;

def test(re): test(re; "");
def capture(re): capture(re; "");
def scan(re; flags): _scan(re; "g" + flags);
def scan(re): _scan(re; "g");
def sub(re; f): sub(re; f; "");
def gsub(re; f; flags): sub(re; f; "g" + flags);
def gsub(re; f): sub(re; f; "g");

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

def @csv: _csv;
def @tsv: _tsv;

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
