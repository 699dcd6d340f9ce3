"""A scanner for awk programs that accepts what it can prove neither to run commands nor to open files.

The words `system`, `getline`, `ARGV` and `SYMTAB` are refused wherever they stand, in strings and comments too: then no
reading of the text can hide them. Outside strings and expressions a single `|` and the sign `@` (gawk's includes, extensions
and indirect calls) are refused, and a `>` in a print statement outside parentheses unless the target is a standard stream.
Where a slash could begin an expression or divide, and the scanner cannot tell, the program is refused. (POSIX.1-2017 awk,
gawk(1), mawk(1).)
"""

from __future__ import annotations

__all__ = ["awk_fault"]

_LONGEST = 65_536
_FORBIDDEN = {
    "system": "runs a command",
    "getline": "reads from a command or another file",
    "ARGV": "can open files by names it computes",
    "SYMTAB": "changes variables by their names",
}
_CONTROL = frozenset({"if", "while", "for", "switch"})
_BEFORE_EXPRESSION = frozenset({"print", "printf", "return", "in", "case", "else", "do", "exit", "delete"})
_EXPECTS_OPERAND = frozenset(
    {"", "\n", ";", "{", "}", "(", ",", "~", "!", "&&", "||", "==", "!=", "<=", ">=", "?", ":", "control)"}
)
_COMPLETE = frozenset({"value", "name", ")", "]", "++", "--", "print", "printf"})
"""Tokens after which a line end can end a statement; after all others the statement, and with it a print, is taken to go on."""
_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_PAIRS = frozenset({"&&", "||", "==", "!=", "<=", ">=", "++", "--", ">>", "|&"})
_STREAMS = ('"/dev/stderr"', '"/dev/stdout"')


class _Unproved(Exception):
    pass


def awk_fault(program: str) -> str:
    """ "" when the program only computes and prints, else what is wrong with it."""
    if not program.strip():
        return "is an empty program"
    if len(program) > _LONGEST:
        return f"is a program of more than {_LONGEST} characters"
    for word, does in _FORBIDDEN.items():
        if word in program:
            return f"is an awk program that holds {word}, which {does}"
    if not any(sign in program for sign in "|>@"):
        return ""
    try:
        _Scanner(program).scan()
    except _Unproved as error:
        return f"is an awk program that {error}"
    return ""


class _Scanner:
    def __init__(self, program: str) -> None:
        self.program = program
        self.at = 0
        self.before = ""
        """The last token; words as they are, numbers and strings as "value"."""
        self.parentheses: list[str] = []
        self.printing = False

    def scan(self) -> None:
        while self.at < len(self.program):
            character = self.program[self.at]
            if character in " \t\r":
                self.at += 1
            elif character == "\\":
                self.continued_line()
            elif character == "#":
                self.comment()
            elif character == '"':
                self.string()
            elif character == "/":
                self.slash()
            elif character in _WORD:
                self.word()
            else:
                self.sign()
        if self.parentheses:
            raise _Unproved("has a parenthesis without its end")

    def continued_line(self) -> None:
        if not self.program.startswith("\\\n", self.at):
            raise _Unproved("has a backslash outside strings")
        self.at += 2

    def comment(self) -> None:
        end = self.program.find("\n", self.at)
        end = len(self.program) if end < 0 else end
        if self.program[self.at : end].endswith("\\"):
            raise _Unproved("has a comment that ends in a backslash")
        self.at = end

    def string(self) -> None:
        self.at = self.literal_end('"', self.at + 1)
        self.before = "value"

    def literal_end(self, mark: str, at: int) -> int:
        while at < len(self.program):
            character = self.program[at]
            if character == mark:
                return at + 1
            if character == "\n" or self.program.startswith("\\\n", at):
                break
            at += 2 if character == "\\" else 1
        raise _Unproved("has a string or expression without its end on the line")

    def slash(self) -> None:
        if self.before in _EXPECTS_OPERAND or self.before in _BEFORE_EXPRESSION:
            end = self.literal_end("/", self.at + 1)
            if "[" in self.program[self.at : end].replace("\\[", "") and not _brackets_close(self.program[self.at + 1 : end - 1]):
                raise _Unproved("has a slash within brackets, which awks read differently")
            self.at, self.before = end, "value"
        elif self.before in ("value", ")", "]", "name"):
            self.at, self.before = self.at + 1, "operator"
        else:
            raise _Unproved("has a slash that could divide or begin an expression")

    def word(self) -> None:
        start = self.at
        while self.at < len(self.program) and self.program[self.at] in _WORD:
            self.at += 1
        word = self.program[start : self.at]
        if word in ("print", "printf"):
            self.printing = True
        known = word in _CONTROL or word in _BEFORE_EXPRESSION
        self.before = word if known else "value" if word[0].isdigit() else "name"

    def sign(self) -> None:
        two = self.program[self.at : self.at + 2]
        sign = two if two in _PAIRS else self.program[self.at]
        if sign in ("|", "|&", "@"):
            raise _Unproved("loads code or calls by name" if sign == "@" else "pipes to or from a command")
        if sign == ">>" or (sign == ">" and self.printing and not self.parentheses):
            self.redirection(sign)
        self.at += len(sign)
        if sign == "\n":
            self.line_end()
            return
        if sign == "(":
            self.parentheses.append("control)" if self.before in _CONTROL else ")")
        elif sign == ")":
            sign = self.close()
        elif sign in (";", "}") and not self.parentheses:
            self.printing = False
        self.before = sign

    def line_end(self) -> None:
        if self.parentheses:
            return  # some awks skip it, for others it is an error
        if self.before in _COMPLETE:
            self.printing = False
            self.before = "\n"

    def close(self) -> str:
        if not self.parentheses:
            raise _Unproved("has a parenthesis without its beginning")
        return self.parentheses.pop()

    def redirection(self, sign: str) -> None:
        rest = self.program[self.at + len(sign) :].lstrip(" \t")
        if not any(
            rest.startswith(stream) and rest[len(stream) :].lstrip(" \t")[:1] in ("", ";", "}", "\n") for stream in _STREAMS
        ):
            raise _Unproved("prints to a file")


def _brackets_close(expression: str) -> bool:
    inside, at = False, 0
    while at < len(expression):
        if expression[at] == "\\":
            at += 2
            continue
        if expression[at] == "[" and not inside:
            inside = True
            at += 2 if expression[at + 1 : at + 2] == "]" else 3 if expression[at + 1 : at + 3] == "^]" else 1
            continue
        if expression[at] == "]":
            inside = False
        at += 1
    return not inside
