#!/bin/sh
# A base backup of a running Postgres, whole and verified, or none: `backup.sh URL FOLDER`. It prints where it lies.
# With the archive of WAL since then (archive.sh) it can be restored to any moment after its end (restore.sh).
set -eu

url=$1 folder=$2
place=$folder/$(date -u +%Y%m%dT%H%M%SZ)

mkdir -p "$folder"
rm -rf "$folder"/*.part # of one that died
pg_basebackup --dbname "$url" --pgdata "$place.part" --wal-method stream --checkpoint fast >&2
pg_verifybackup --quiet "$place.part" >&2
mv "$place.part" "$place"
echo "$place"
