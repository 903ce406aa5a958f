#!/bin/sh
# Postgres' archive_command: `archive.sh %p %f FOLDER`. A segment is in the archive whole, on the disk, or not at all; one that
# is there with the same content is as good (Postgres died before it noted that), one with other content is not ours.
set -eu

from=$1 name=$2 folder=$3

if [ -e "$folder/$name" ]; then
    cmp -s "$from" "$folder/$name" && exit 0
    echo "archive.sh: $folder/$name is there already, with other content: does another Postgres archive here?" >&2
    exit 1
fi
cp "$from" "$folder/$name.part"
sync "$folder/$name.part"
mv "$folder/$name.part" "$folder/$name"
sync "$folder"
