#!/usr/bin/env bash
# `servecast check` on a pull request: the shell of the GitHub Action `action.yml`.
#
#   pull-request.sh keys     prints what caches of the program are named by, a line each: its sources, its crates, the toolchain
#   pull-request.sh check    checks, and tells the pull request what is different in one comment, which later runs change
#
# Settings are variables, so that no text of a workflow is read as shell:
#   SERVECAST      the program (default: servecast)
#   CHECK_FOLDER   the folder of scenarios (default: the suite that is part of the program)
#   CHECK_FILTER   only scenarios with such names
#   CHECK_EXACT    true: any change fails
#   PULL_REQUEST   number of the pull request; without one nothing is commented
# It needs the tools of GNU, as Linux has them. GitHub sets GITHUB_ACTION_PATH, GITHUB_REPOSITORY, GITHUB_STEP_SUMMARY and RUNNER_TEMP. `gh` comments, with GH_TOKEN.
#
# Exit code: that of `servecast check`. A comment that cannot be written, as with the token of a fork, is a warning.
set -euo pipefail
export LC_ALL=C

# GitHub takes comments of up to 65,536 characters.
report_max=60000

# Hashes of what the binary is made of, as outputs of a step: the sources with the flags that they are built by, where documents and
# tests change nothing; the crates in their versions; the compiler with its target.
keys() {
  local sources crates toolchain
  # Which compiler there is hangs on the folder that cargo is called in.
  toolchain=$(rustc -vV | hash)
  cd "$GITHUB_ACTION_PATH"
  sources=$(find action.yml Cargo.toml src profiles checks scenarios -type f -print0 | sort -z | xargs -0 sha256sum | hash)
  crates=$(hash <Cargo.lock)
  printf '%s=%s\n' sources "$sources" crates "$crates" toolchain "$toolchain"
}

hash() { sha256sum | cut -c 1-32; }

# The report without scenarios that are as before, for a block of a diff: what fails in red, what is better in green.
coloured() {
  awk '
    /^as before/ { next }
    /^(FAIL|UNKNOWN)/ || /^           .*[A-Z]$/ { print "- " $0; next }
    /^           .*  better$/ { print "+ " $0; next }
    { print "  " $0 }' "$1"
}

# The lines that fit into a comment.
shortened() {
  awk -v most="$report_max" '
    { size += length($0) + 1 }
    size <= most { print; next }
    !told++ { print "  … (the log of the job has the rest)" }'
}

# The comment: $1 what was printed, $2 what was said on stderr, $3 the exit code.
comment() {
  local verdict fence='```'
  case $3 in
    0) verdict=passes ;;
    1) verdict=fails ;;
    *) verdict='cannot be run' ;;
  esac
  printf '%s\n### `servecast check%s` %s\n\n' "$marker" "$shown" "$verdict"
  tail -n 1 "$1"
  while grep -qF "$fence" "$1" "$2"; do fence+='`'; done
  if ! is_unchanged "$1"; then
    printf '\n%sdiff\n' "$fence"
    coloured "$1" | sed '$d' | shortened
    printf '%s\n' "$fence"
  fi
  if [[ -s $2 ]]; then
    printf '\n%stext\n' "$fence"
    shortened <"$2"
    printf '%s\n' "$fence"
  fi
}

is_unchanged() { [[ $(sed '$d' "$1" | grep -cv '^as before') -eq 0 ]]; }

# Writes the comment $1, over that of an earlier run; $2 is true if there is something to tell.
publish() {
  local comments=repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments earlier
  earlier=$(MARKER=$marker gh api --paginate "$comments" \
    --jq '.[] | select(.user.type == "Bot" and (.body | startswith(env.MARKER))) | .id') || return
  earlier=$(head -n 1 <<<"$earlier")
  if [[ -n $earlier ]]; then
    gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$earlier" --field "body=@$1"
  elif [[ $2 == true ]]; then
    gh api --silent --method POST "$comments" --field "body=@$1"
  fi
}

check() {
  local arguments=() shown='' code=0 news=true marker scratch
  scratch=$(mktemp -d "${RUNNER_TEMP:-/tmp}/servecast-check.XXXXXX")
  [[ -z ${CHECK_FOLDER:-} ]] || arguments+=("$CHECK_FOLDER")
  [[ -z ${CHECK_FILTER:-} ]] || arguments+=("--filter=$CHECK_FILTER")
  [[ ${CHECK_EXACT:-false} != true ]] || arguments+=(--exact)
  [[ ${#arguments[@]} -eq 0 ]] || shown=" ${arguments[*]}"
  # Several checks of one pull request have a comment each.
  marker="<!-- servecast$(sha256sum <<<"$shown" | cut -c 1-16) -->"

  "${SERVECAST:-servecast}" check ${arguments[@]+"${arguments[@]}"} >"$scratch/report" 2>"$scratch/said" || code=$?
  cat "$scratch/report"
  cat "$scratch/said" >&2
  comment "$scratch/report" "$scratch/said" "$code" >"$scratch/comment.md"
  [[ -z ${GITHUB_STEP_SUMMARY:-} ]] || cat "$scratch/comment.md" >>"$GITHUB_STEP_SUMMARY"
  if [[ $code -eq 0 ]] && is_unchanged "$scratch/report"; then news=false; fi
  if [[ -n ${PULL_REQUEST:-} ]] && ! publish "$scratch/comment.md" "$news"; then
    echo "::warning title=servecast check::The pull request has no comment: the token must have 'pull-requests: write'."
  fi
  rm -r "$scratch"
  return "$code"
}

case ${1:-} in
  keys) keys ;;
  check) check ;;
  *)
    echo "usage: pull-request.sh keys | check" >&2
    exit 2
    ;;
esac
