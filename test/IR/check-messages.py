"""Every message in the sources has an expectation in a test.

    check-messages.py TEST.mlir... SOURCE-FOLDER

A message is what one emitOpError or emitError statement streams. Of its string
literals, each that is long enough to tell it from others must be part of a text
that a test expects.
"""

import pathlib
import re
import sys

STATEMENT = re.compile(r"emit(?:Op)?Error\(.*?;", re.S)
ADJACENT_LITERALS = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+')
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
TELLING = 12


def messages(text):
    """Yields (literal, line) for each telling literal of each statement."""
    text = re.sub(r"^\s*//.*", "", text, flags=re.M)
    for statement in STATEMENT.finditer(text):
        line = text[: statement.start()].count("\n") + 1
        literals = [
            "".join(LITERAL.findall(run.group()))
            for run in ADJACENT_LITERALS.finditer(statement.group())
        ]
        telling = [t for t in literals if len(t) >= TELLING]
        yield from ((literal, line) for literal in telling or literals[:1])


def main(arguments):
    *tests, folder = arguments
    expected = "\n".join(
        line
        for test in tests
        for line in pathlib.Path(test).read_text().splitlines()
        if "expected-error" in line
    )
    failed = 0
    for source in sorted(pathlib.Path(folder).glob("*.[ch]*")):
        for message, line in messages(source.read_text()):
            if message.strip(" '") not in expected:
                print(f"{source.name}:{line}: no test expects '{message}'")
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
