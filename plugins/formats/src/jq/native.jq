# Functions that jaq_std defines natively, together with time zones from files, and one with a limit.

def fromjson: shallow | parse_json;
def escape_html:
  def replace($from; $to): (. / $from) | join($to);
  replace("&"; "&amp;") | replace("<"; "&lt;") | replace(">"; "&gt;") | replace("'"; "&#39;") | replace("\""; "&quot;");
def gmtime: [(format_seconds("%Y %-m %-d %-H %-M %w %-j") / " ")[] | fromjson] as [$year, $month, $day, $hour, $minute, $weekday, $yearday]
  | [$year, $month - 1, $day, $hour, $minute, (. % 60 + 60) % 60, $weekday, $yearday - 1];
def mktime: "\(.[0]) \(.[1] + 1) \(.[2]) \(.[3]) \(.[4]) \(.[5])" | parse_seconds("%Y %m %d %H %M %S%.f");
def strftime($format): if . >= [] then mktime end | format_seconds($format);
def strptime($format): parse_seconds($format) | gmtime;
def todateiso8601: strftime("%Y-%m-%dT%H:%M:%S%.fZ");
