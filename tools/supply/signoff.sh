#!/usr/bin/env bash
# Fails when a commit of a range, except merges, has no line "Signed-off-by" with its author's address, as the Developer Certificate of
# Origin requires: signoff.sh REPOSITORY origin/main..HEAD
set -euo pipefail

git -C "$1" log --no-merges --format='%h (%s)%x09%ae%x09%(trailers:key=Signed-off-by,valueonly,separator=%x20)' --end-of-options "$2" |
  awk -F '\t' '
    !index(tolower($NF), "<" tolower($(NF-1)) ">") {
      print $1 " has no line \"Signed-off-by\" of its author <" $(NF-1) ">: git rebase --signoff"; missing = 1
    }
    END { if (!missing) print "signoff: commits=" NR; exit missing }'
