"""Runs the programs of the cookbook, one after another in this process, and compares what they print with the page.

A small server plays the models, and checks that the results of its calls came back.
The argument is the page. The environment has its variables but those of the model.
"""

import contextlib
import io
import re
import sys
import time
from pathlib import Path

import scripted_model

PAGE = Path(sys.argv[1]).read_text()
# `<!-- runs: NAME -->`, the program, and the text that it prints.
PROGRAM = re.compile(r"<!-- runs: (\w+) -->\n```python\n(.*?)```\n\n```text\n(.*?)```\n", re.DOTALL)
FINAL = "It is 42."
EVALUATE = ("evaluate", {"expression": "6*7"})
# The calls of the model in each reply before its last one.
TURNS = [[EVALUATE]]
WITHOUT_MODEL = {"program", "events"}
OF_PEOPLE = [[("ask", {"question": "Which day suits you?"})], [("write", {"path": "day.txt", "content": "Monday"})]]


class Conversation(scripted_model.Model):
    def check(self):
        if self.texts and self.final == FINAL:
            assert '"decimal":"42"' in self.texts[-1], self.texts
        assert len(self.texts) == self.replies - 1, f"{len(self.texts)} results in request {self.replies}"


def run(name, program, shown, server):
    turns, final = (OF_PEOPLE, "I have written it down.") if name == "people" else (TURNS, FINAL)
    server.model = Conversation(turns, final)
    printed, start = io.StringIO(), time.monotonic()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, f"cookbook.md, {name}", "exec"), {"__name__": name})
    print(f"{name}: {time.monotonic() - start:.1f} s", file=sys.stderr)
    assert printed.getvalue() == shown, f"{name} printed {printed.getvalue()!r}"
    assert name in WITHOUT_MODEL or server.model.replies == len(turns) + 1, f"{name}: the conversation ended early"


def main():
    server = scripted_model.start()
    programs = PROGRAM.findall(PAGE)
    assert len(programs) == PAGE.count("```python"), "a program of the page lacks its name, or what it prints"
    for name, program, shown in programs:
        run(name, program, shown, server)


main()
