#!/usr/bin/env python3
"""Whether every link of a built book leads somewhere: to a file of the book, and to an anchor that its page has.

Usage: tests/docs/links.py FOLDER

Links to other hosts are not followed.
"""

import pathlib
import sys
import urllib.parse
from html.parser import HTMLParser


class Page(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key == "id" or (key == "name" and tag == "a"):
                self.anchors.add(value)
            elif key in ("href", "src") and value is not None:
                self.links.append(value)


def broken(folder):
    """Each link that leads nowhere, as a sentence; at last the number of all."""
    # The page of what is not found has links from the root of its host, wherever that is.
    paths = [path for path in sorted(folder.rglob("*.html")) if path.name != "404.html"]
    pages = {path.resolve(): Page(path) for path in paths}
    count = 0
    for path, page in pages.items():
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            count += 1
            target = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            target = target / "index.html" if target.is_dir() else target
            shown = f"{path.relative_to(folder.resolve())}: {link}"
            if not target.is_relative_to(folder.resolve()):
                yield f"{shown} leaves the book"
            elif not target.is_file():
                yield f"{shown} leads nowhere"
            elif url.fragment and target in pages:
                if urllib.parse.unquote(url.fragment) not in pages[target].anchors:
                    yield f"{shown}: no such anchor"
    yield (len(pages), count)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    *problems, (pages, links) = broken(pathlib.Path(sys.argv[1]))
    print(*problems, f"{pages} pages, {links} links, {len(problems)} broken", sep="\n")
    return 1 if problems or links < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
