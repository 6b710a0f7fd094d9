# Names of jq that jaq does not define.

def trimstr($affix): ltrimstr($affix) | rtrimstr($affix);
def toarray: if isarray then . else [.] end;
def leaf_paths: paths(type != "array" and type != "object");
def date: todate;
def IN(source): any(source == .; .);
def IN(left; right): any(left == right; .);
def INDEX(source; key): reduce source as $row ({}; .[$row | key | tostring] = $row);
def INDEX(key): INDEX(.[]; key);

# Cheaper than those of jaq, which copy the text for each match and walk each path.
def sub(re; f; flags): split_matches(re; flags) | .[] |= (if . >= [] then capture_of_match | first(f) end) | concat;
def sub(re; f): sub(re; f; "");
def gsub(re; f; flags): sub(re; f; "g" + flags);
def gsub(re; f): sub(re; f; "g");
def flatten:
  def leaves: if . >= [] and . < {} then .[] | leaves end;
  [.[] | leaves];
