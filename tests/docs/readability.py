#!/usr/bin/env python3
"""How easily the pages for users read: Flesch reading ease and the longest sentence of each.

Usage: tests/docs/readability.py [--limit WORDS] [PAGE...]

PAGE is a Markdown file (default: the README, the pages that docs/SUMMARY.md lists, and those of OTHERS). With --limit, sentences with
more words are listed and the exit code is 1 if there are any. Code, tables, headings and pictures are left out. An item of a list is a
paragraph. A span of code counts as one word of one syllable, as does a number.

Flesch reading ease (Flesch 1948) = 206.835 - 1.015 words / sentences - 84.6 syllables / words; syllables are groups of vowels.
60 to 70 is plain English, 30 to 50 is difficult.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OTHERS = ["CHANGELOG.md", "CONTRIBUTING.md", "notebooks/README.md"]
ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
# A full stop ends a sentence where a space and the beginning of another follow; "e.g. X" and "vs. X" do not. Names and
# files may begin one in small letters.
NAMES = r"(?:vLLM|servecast|stderr|stdout|llm-d|gpt-oss)\b|[\w-]+(?:/|\.(?:md|py|rs|sh|toml|yaml)\b)"
END = re.compile(rf"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)[.!?][)\"']?\s+(?=[A-Z0-9`\"'(\[§]|{NAMES})")


def paragraphs(text):
    """The prose of a page, one paragraph or item of a list at a time."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    is_code = False
    lines = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("```"):
            is_code = not is_code
            stripped = ""
        is_break = is_code or not stripped or stripped.startswith(("#", "|", "![", "<", "---"))
        if is_break or ITEM.match(line):
            if lines:
                yield " ".join(lines)
            lines = [] if is_break else [ITEM.sub("", line)]
        else:
            lines.append(stripped)
    if lines:
        yield " ".join(lines)


def plain(paragraph):
    """A paragraph without marks: the text of links, code as one word."""
    text = re.sub(r"`[^`]*`", "§", paragraph)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\*\*|\*", "", text)


def sentences(text):
    for paragraph in paragraphs(text):
        for sentence in END.split(plain(paragraph)):
            words = [word for word in sentence.split() if re.search(r"[A-Za-z0-9§]", word)]
            if words:
                yield words


def listed():
    """The README, the pages of the book and the others."""
    book = re.findall(r"\]\(([^)]+\.md)\)", (ROOT / "docs/SUMMARY.md").read_text(encoding="utf-8"))
    return [ROOT / page for page in ["README.md", *(f"docs/{page}" for page in book), *OTHERS]]


def syllables(word):
    letters = re.sub(r"[^a-z]", "", word.lower())
    groups = len(re.findall(r"[aeiouy]+", letters))
    if groups > 1 and letters.endswith("e") and not letters.endswith(("le", "ee")):
        groups -= 1
    return max(groups, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int)
    parser.add_argument("pages", nargs="*")
    args = parser.parse_args()
    pages = [pathlib.Path(page) for page in args.pages] or listed()
    too_long = []
    print(f"{'page':<32} {'words':>6} {'Flesch':>7} {'mean':>5} {'longest':>8} {'> 25':>5} {'> 35':>5}")
    for page in filter(pathlib.Path.is_file, pages):
        found = list(sentences(page.read_text(encoding="utf-8")))
        lengths = [len(words) for words in found]
        total = sum(lengths)
        spoken = sum(syllables(word) for words in found for word in words)
        ease = 206.835 - 1.015 * total / len(found) - 84.6 * spoken / total
        name = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page
        over = [sum(length > bound for length in lengths) for bound in (25, 35)]
        print(
            f"{str(name):<32} {total:>6} {ease:>7.1f} {total / len(found):>5.1f} {max(lengths):>8} {over[0]:>5} {over[1]:>5}"
        )
        if args.limit:
            over = [(name, words) for words in found if len(words) > args.limit]
            too_long += over
    for name, words in too_long:
        print(f"{name}: {len(words)} words: {' '.join(words)}", file=sys.stderr)
    sys.exit(bool(too_long))


if __name__ == "__main__":
    main()
