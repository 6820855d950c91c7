#!/usr/bin/env python3
"""Lists on which day each release of vLLM and SGLang came out, for runs that tell a day and no version.

    python3 profiles/import_releases.py [vllm=FILE] [sglang=FILE] >profiles/releases.toml

A FILE is what PyPI says of the package (https://pypi.org/pypi/vllm/json); without, it is fetched. A release came out when its first
file did. Release candidates are left out.
"""

import datetime
import json
import re
import sys
import urllib.request

PACKAGES = ("vllm", "sglang")
RELEASE = re.compile(r"\d+(\.\d+)+(\.post\d+)?")


def described(package, files):
    if package in files:
        with open(files[package], encoding="utf-8") as file:
            return json.load(file)
    with urllib.request.urlopen(f"https://pypi.org/pypi/{package}/json") as answer:
        return json.load(answer)


def numbers(version):
    return [int(number) for number in re.findall(r"\d+", version)]


def main():
    files = dict(argument.split("=", 1) for argument in sys.argv[1:])
    today = datetime.date.today().isoformat()
    print("# On which day each release came out, oldest first.")
    print(f"# Source: PyPI, https://pypi.org/pypi/PACKAGE/json of {today}; facts only. Made by profiles/import_releases.py.")
    for package in PACKAGES:
        releases = described(package, files)["releases"]
        days = [
            (min(file["upload_time"][:10] for file in of), version)
            for version, of in releases.items()
            if of and RELEASE.fullmatch(version)
        ]
        print(f"\n[{package}]")
        for day, version in sorted(days, key=lambda one: (one[0], numbers(one[1]))):
            print(f'"{version}" = "{day}"')


if __name__ == "__main__":
    main()
