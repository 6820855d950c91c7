#!/usr/bin/env python3
"""Whether the pages for users show what the program prints.

Usage: tests/docs/printed.py [--slow] [--update] [--self-test] [SERVECAST]

SERVECAST is the program (default: target/release/servecast). Each `text` block of README.md and docs/*.md is compared with
what a command of the `sh` block before it prints; where another command made it, a comment before the block names that:
`<!-- printed by: servecast run ... -->`. Commands run in a folder with the files that readers have. What a block shows has to
be printed as it stands there, blanks included. A line `...` stands for lines that are left out, before and after a block there
may be more, and `...` within a line stands for words. Blocks of commands, and those of NOT_RUN, are not compared.

Figures within sentences and tables are compared where a comment below the paragraph, of one line or more, names what prints them:
`<!-- figures of: servecast run ... | Mean TTFT (ms) 48 to 222 = 50 to 220 ms | 1.055 -->`. Each piece is words that one line of the
output has, however many blanks between them, and behind ` = ` words that the paragraph has; without ` = ` both have the same.

--slow compares the pages of SLOW too, which takes a quarter of an hour, and needs Mooncake's trace, in traces/ or
in the folder of reference data, SERVECAST_DATA.
--update writes what is printed now into the pages, as far as lines differ in figures alone.
--self-test tries this script on pages and a program of its own.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import functools
import itertools
import os
import pathlib
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# Of blocks whose first line begins so, why no command is run for them.
NOT_RUN = {
    "serving Qwen/Qwen3-14B at": "serves until it is told to end",
    "like = \"L40S\"": "a part of a file",
    '{"families"': "the form of an output",
}
# Pages whose commands take minutes even when optimised.
SLOW = {"docs/which-router.md"}
COMMANDS = ("servecast ", "cargo ", "docker ", "mkdir ")
# Files of readers that are files of the sources.
FILES = {
    "found.toml": "docs/tutorial/found.toml",
    "my-checks/burst.toml": "checks/burst.toml",
    "my-checks/golden.toml": "checks/golden.toml",
}
# A file that readers fetch, and its place among the reference data.
FETCHED = ("traces/conversation_trace.jsonl", "traces/mooncake/conversation_trace.jsonl")
LIMIT_S = 900
AT_ONCE = 2


class Block:
    """A `text` block of a page, with the commands that may have printed it."""

    def __init__(self, page, first, lines, commands):
        self.page, self.first, self.lines, self.commands = page, first, lines, commands

    def is_of_commands(self):
        return all(line.startswith(COMMANDS) or not line for line in self.lines)

    def why_not_run(self, slow):
        """The entry of a list that says that the block is not run, if one does."""
        if self.page in SLOW and not slow:
            return self.page
        return next((start for start in NOT_RUN if self.lines and self.lines[0].startswith(start)), None)


class Sentence:
    """Figures in a paragraph of a page, with the command that prints them: pairs of what it prints and what the page says."""

    def __init__(self, page, line, paragraph, told):
        self.page, self.line, self.paragraph = page, line, paragraph
        command, *pieces = [piece.strip() for piece in told.split("|")]
        self.commands = commands_of([command])
        self.pairs = [(piece.split(" = ") * 2)[: max(2, piece.count(" = ") + 1)] for piece in pieces]


def commands_of(lines):
    """The program's commands of a shell block, lines that go on joined, comments off."""
    joined = "\n".join(lines).replace("\\\n", " ").split("\n")
    bare = [" ".join(line.split(" #")[0].split()) for line in joined]
    bare = ["servecast" if line.startswith("cargo run --release") else line for line in bare]
    return [line for line in bare if line.split(" ")[0] == "servecast"]


def blocks_of(page, text):
    """The `text` blocks and told sentences of a page, and the first scenario that it shows, which its commands call `my.toml`."""
    lines = text.split("\n")
    found, sentences, paragraph, commands, named, mine, at = [], [], [], [], None, None, 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if told := re.fullmatch(r"<!-- printed by: (.*) -->", line):
            named = commands_of([told[1]])
        if line.startswith("<!-- figures of: "):
            first = at - 1
            while not lines[at - 1].endswith(" -->"):
                at += 1
            told = " ".join(lines[first:at]).removeprefix("<!-- figures of: ").removesuffix(" -->")
            sentences.append(Sentence(page, first + 1, " ".join(paragraph), told))
            continue
        if not line.strip() or line.startswith("```"):
            paragraph = []
        elif not line.startswith("<!--"):
            paragraph = [*paragraph, line]
        if not line.startswith("```"):
            continue
        first = at
        while not lines[at].startswith("```"):
            at += 1
        inside = lines[first:at]
        at += 1
        if line == "```sh":
            commands = commands_of(inside)
        elif line == "```toml" and mine is None:
            mine = "\n".join(inside) + "\n"
        elif line == "```text":
            found.append(Block(page, first, inside, named or commands))
            named = None
    return found, sentences, mine


def folder_of_a_reader(folder, mine):
    # Copies, so that no command can write into the sources.
    for name in ("scenarios", "docs", "profiles", "traces"):
        shutil.copytree(ROOT / name, folder / name)
    fetched = pathlib.Path(os.environ.get("SERVECAST_DATA", folder)) / FETCHED[1]
    if fetched.is_file():
        (folder / FETCHED[0]).unlink(missing_ok=True)
        shutil.copyfile(fetched, folder / FETCHED[0])
    files = {name: (ROOT / source).read_text(encoding="utf-8") for name, source in FILES.items()}
    # The change that the page of checks shows.
    burst = files["my-checks/burst.toml"]
    files["my-checks/burst.toml"] = burst.replace("num_gpu_blocks", "max_num_batched_tokens = 4096, num_gpu_blocks")
    if mine:
        files["my.toml"] = mine
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


@functools.cache
def printed(program, command, mine):
    """What a command prints, each stream apart and both as they come; or why it does not."""
    with tempfile.TemporaryDirectory() as folder:
        folder_of_a_reader(pathlib.Path(folder), mine)
        words = [str(program), *shlex.split(command)[1:]]
        try:
            done = subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return None, f"{command}: takes more than {LIMIT_S} s"
    if done.returncode not in (0, 1):
        return None, f"{command}: exit code {done.returncode}: {done.stderr.strip()}"
    return [text.splitlines() for text in (done.stdout, done.stderr, done.stderr + done.stdout)], None


def is_line(shown, got):
    """Whether a line is the one that a page shows; `...` stands for whole words."""
    parts = [re.escape(part.strip() if number else part.rstrip()) for number, part in enumerate(shown.split(" ..."))]
    if len(parts) == 1:
        return shown.rstrip() == got.rstrip()
    return re.fullmatch("(?: .*)?".join([parts[0], *(f" {part}" if part else "" for part in parts[1:])]), got.rstrip())


def shape(line):
    """A line without its figures."""
    return " ".join(re.sub(r"[+-]?\d[\d.,]*", "0", line).split())


def is_alike(shown, got):
    return is_line(shown, got) or (" ..." not in shown and shape(shown) == shape(got))


def pieces(lines):
    """The lines between those that stand for others, each piece with the number of its first."""
    first = 0
    for number, line in enumerate([*lines, "..."]):
        if line.strip() in ("...", "…"):
            yield first, lines[first:number]
            first = number + 1


def follow(lines, output, alike):
    """
    The lines of a block as an output has them, each piece of them without gaps and after the one before; and the number of the
    first that it has not. Where `alike`, lines with other figures will do, at the place where the most lines are the same.
    """
    is_same = is_alike if alike else is_line
    found, after = list(lines), 0
    for first, piece in pieces(lines):
        longest, same, place = 0, -1, None
        for at in range(after, len(output) - len(piece) + 1):
            there = list(zip(piece, output[at:]))
            fitting = sum(1 for _ in itertools.takewhile(lambda pair: is_same(*pair), there))
            longest = max(longest, fitting)
            exact = sum(1 for pair in there if is_line(*pair))
            if fitting == len(piece) and exact > same:
                same, place = exact, at
        if place is None:
            return found, first + longest
        for number, got in enumerate(output[place : place + len(piece)], first):
            found[number] = lines[number] if is_line(lines[number], got) else got.rstrip()
        after = place + len(piece)
    return found, None


def printed_by_all(program, commands, mine):
    """What the commands of a block print one after the other."""
    told = [printed(program, command, mine)[0] for command in commands]
    return [line for outputs in told if outputs for line in outputs[0]]


def compare(program, block, mine):
    """Nothing where commands print the block; else what is wrong, and the lines that may take its place."""
    where = f"{block.page}:{block.first}"
    if not block.commands:
        return f"{where}: no command is before this block; NOT_RUN may say why", None
    nearest, wrong, better = -1, None, None
    tries = [(command, *printed(program, command, mine)) for command in block.commands]
    if len(block.commands) > 1:
        tries.append(("; ".join(block.commands), [printed_by_all(program, block.commands, mine)], None))
    for command, outputs, problem in tries:
        if problem:
            wrong = wrong or f"{where}: {problem}"
            continue
        for output in outputs:
            _, missing = follow(block.lines, output, alike=False)
            if missing is None:
                return None, None
            anew, unlike = follow(block.lines, output, alike=True)
            better = better or (anew if unlike is None else None)
            if missing > nearest:
                nearest = missing
                wrong = f"{where}: `{command}` does not print line {block.first + missing + 1}: {block.lines[missing]}"
    return wrong, better


def compare_sentence(program, sentence, mine):
    """Nothing where the command prints the figures of a sentence; else what is wrong."""
    where = f"{sentence.page}:{sentence.line}"
    if len(sentence.commands) != 1 or not sentence.pairs:
        return f"{where}: names no command, or none of its figures"
    if any(len(pair) != 2 for pair in sentence.pairs):
        return f"{where}: a piece has ` = ` twice"
    outputs, problem = printed(program, sentence.commands[0], mine)
    if problem:
        return f"{where}: {problem}"
    # In a table several cells may read the same: as many as pieces that say so.
    times = collections.Counter(said for _, said in sentence.pairs)
    is_table = sentence.paragraph.startswith("|")
    for shown, said in sentence.pairs:
        if len(found(sentence.paragraph, said)) < (times[said] if is_table else 1):
            return f"{where}: the paragraph above does not say: {said}"
        if not any(found(line, shown) for line in outputs[-1]):
            return f"{where}: `{sentence.commands[0]}` does not print: {shown}"
    return None


def found(line, words):
    """The places where a line has these words one after the other, and no longer figures at their ends."""
    inside = r"\s+".join(re.escape(word) for word in words.split())
    return re.findall(rf"(?<![\w.,+-]){inside}(?!\w|[.,]\d)", line)


def check(program, folder, update, slow=False):
    """All that is wrong, as sentences, and the number of blocks that were compared."""
    pages = [folder / "README.md", *sorted((folder / "docs").glob("*.md"))]
    wrong, used, tasks, told = [], set(), [], []
    for path in pages:
        page = path.relative_to(folder).as_posix()
        text = path.read_text(encoding="utf-8")
        blocks, sentences, mine = blocks_of(page, text)
        if text.count("<!-- figures of:") != len(sentences):
            wrong.append(f"{page}: a comment `figures of` does not begin its line")
        told += [(sentence, mine) for sentence in sentences if slow or page not in SLOW]
        for block in blocks:
            if block.is_of_commands():
                continue
            reason = block.why_not_run(slow)
            if reason:
                used.add(reason)
            else:
                tasks.append((path, block, mine))
    lists = [*NOT_RUN, *([] if slow else SLOW)]
    wrong += [f"no block is `{entry}`, which is not run" for entry in lists if entry not in used]
    # Each command once, though two blocks may show parts of what it prints.
    asked = [(block, mine) for _, block, mine in tasks] + told
    runs = dict.fromkeys((command, mine) for one, mine in asked for command in one.commands)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda run: printed(program, *run), runs))
    for path, block, mine in tasks:
        problem, better = compare(program, block, mine)
        if not problem:
            continue
        if update and better:
            lines = path.read_text(encoding="utf-8").split("\n")
            lines[block.first : block.first + len(block.lines)] = better
            path.write_text("\n".join(lines), encoding="utf-8")
            print(f"{block.page}:{block.first}: written anew")
        else:
            wrong.append(problem)
    wrong += filter(None, (compare_sentence(program, *one) for one in told))
    return wrong, f"{len(tasks)} blocks and {len(told)} sentences"


def self_test():
    """Tries good and bad pages on a program that prints three lines."""
    good = "```sh\nservecast run\n```\n\n```text\nA     1.5 ms\n...\nC  3\n```\n"
    cases = {
        "a true page": (good, None),
        "another figure": (good.replace("1.5", "1.6"), "does not print"),
        "a line that is not printed": (good.replace("C  3", "C  3\nD  4"), "does not print"),
        "lines in another order": (good.replace("A     1.5 ms\n...\nC  3", "C  3\n...\nA     1.5 ms"), "does not print"),
        "a line left out": (good.replace("...\n", ""), "does not print line 7: C  3"),
        "words left out": (good.replace("A     1.5 ms", "A ... ms"), None),
        "a part of a figure left out": (good.replace("A     1.5 ms", "A ... 5 ms"), "does not print line 6: A ... 5 ms"),
        "other blanks": (good.replace("A     1.5 ms", "A 1.5 ms"), "does not print"),
        "another command, named": (f"```sh\nservecast none\n```\n<!-- printed by: servecast run -->\n{good[24:]}", None),
        "commands one after the other": ("```sh\nservecast run\nservecast run\n```\n```text\nC  3\nA     1.5 ms\n```\n", None),
        "no command": ("```text\nA     1.5 ms\n```\n", "no command"),
        "a failing command": (good.replace("servecast run", "servecast fail"), "exit code 2"),
        "a sentence": ("It takes\n1.5 ms, or 2.\n<!-- figures of: servecast run | A 1.5 ms = 1.5 ms | C 3 = 2 -->\n", None),
        "a sentence with another figure": ("1.4\n<!-- figures of: servecast run | A 1.5 = 1.5 -->\n", "does not say: 1.5"),
        "a sentence with a longer figure": ("1.55\n<!-- figures of: servecast run | 1.5 -->\n", "does not say: 1.5"),
        "a figure of a sentence that is not printed": ("5 ms\n<!-- figures of: servecast run | 5 ms -->\n", "does not print: 5 ms"),
        "a sentence of two lines of the output": ("1\n<!-- figures of: servecast run | ms B = 1 -->\n", "does not print: ms B"),
        "a sentence of a paragraph before": ("1.5\n\nMore.\n<!-- figures of: servecast run | 1.5 -->\n", "does not say"),
        "two comments below a paragraph": (
            "1.5 and 3\n<!-- figures of: servecast run\n  | 1.5 -->\n<!-- figures of: servecast run | C 3 = 3 -->\n", None
        ),
        "cells that read the same": ("| 2 | 2 |\n<!-- figures of: servecast run | A 1.5 = 2 | C 3 = 2 -->\n", None),
        "a cell with another figure": ("| 2 | 4 |\n<!-- figures of: servecast run | A 1.5 = 2 | C 3 = 2 -->\n", "does not say: 2"),
        "a figure in a comment": ("x\n<!-- printed by: servecast 1.5 -->\n<!-- figures of: servecast run | 1.5 -->\n", "does not say"),
        "a comment in a list": ("* 1.5\n  <!-- figures of: servecast run | 1.5 -->\n", "does not begin its line"),
        "two signs": ("1.5\n<!-- figures of: servecast run | 1.5 = 1.5 = 2 -->\n", "twice"),
        "a sentence without figures": ("1.5\n<!-- figures of: servecast run -->\n", "none of its figures"),
        "commands alone": ("```text\nservecast run\n```\n", None),
    }
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program = folder / "program"
        program.write_text(
            '#!/bin/sh\n[ "$1" = fail ] && exit 2\n[ "$1" = run ] && printf "A     1.5 ms\\nB\\nC  3\\n"\n[ "$1" = two ] && printf "rate 4\\nX  1\\nrate 8\\nX  2\\n"\nexit 0\n', encoding="utf-8"
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        (folder / "docs").mkdir()
        page = folder / "README.md"
        lists = NOT_RUN.copy(), SLOW.copy()
        NOT_RUN.clear(), SLOW.clear()
        for name, (text, expected) in cases.items():
            page.write_text(text, encoding="utf-8")
            wrong, _ = check(program, folder, update=False)
            told = "; ".join(wrong)
            if bool(expected) != bool(told) or (expected or "") not in told:
                sys.exit(f"{name}: expected {expected}, got: {told}")
        page.write_text(good.replace("1.5", "1.6"), encoding="utf-8")
        with contextlib.redirect_stdout(None):
            check(program, folder, update=True)
        if page.read_text(encoding="utf-8") != good:
            sys.exit("--update does not write the figure that is printed")
        page.write_text("```sh\nservecast two\n```\n```text\nrate 8\nX  3\n```\n", encoding="utf-8")
        with contextlib.redirect_stdout(None):
            check(program, folder, update=True)
        if "rate 8\nX  2\n" not in page.read_text(encoding="utf-8"):
            sys.exit("--update takes figures from another part of the output")
        NOT_RUN["nothing"] = "stale"
        if not check(program, folder, update=False)[0]:
            sys.exit("an entry that is of no block passes")
        NOT_RUN.clear()
        NOT_RUN.update(lists[0]), SLOW.update(lists[1])
    print(f"{len(cases) + 3} cases hold")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("servecast", nargs="?", default=ROOT / "target/release/servecast", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return
    if not arguments.servecast.is_file():
        sys.exit(f"{arguments.servecast}: no such program; `cargo build --release` makes target/release/servecast")
    wrong, compared = check(arguments.servecast.resolve(), ROOT, arguments.update, arguments.slow)
    print(f"{compared} are compared with what is printed")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
