#!/bin/sh
# A data folder that recovers to a moment when Postgres starts on it: `restore.sh BACKUP ARCHIVE MOMENT DATA`.
#
#   BACKUP   what backup.sh printed, taken before the moment
#   ARCHIVE  the folder that archive.sh writes to
#   MOMENT   with its zone, as 2026-11-19 21:40:00+00
#   DATA     a folder that is not there yet
#
# Start Postgres on DATA, as the user that owns it: it replays the archive up to the moment and begins a timeline of its own.
# Where the archive does not reach the moment it refuses to start, and says so. What is newer is left in archive and backup.
set -eu

backup=$1 archive=$2 moment=$3 data=$4

case $moment in
*-*-*:*[+-][0-9][0-9]*) ;;
*) echo "restore.sh: the moment needs its zone, as 2026-11-19 21:40:00+00" >&2 && exit 2 ;;
esac
[ -f "$backup/backup_manifest" ] || { echo "restore.sh: $backup is no base backup" >&2 && exit 2; }
[ -d "$archive" ] || { echo "restore.sh: $archive is no folder" >&2 && exit 2; }
[ ! -e "$data" ] || { echo "restore.sh: $data is there already, and is left as it is" >&2 && exit 2; }

pg_verifybackup --quiet "$backup" >&2
draft=$data.part
rm -rf "$draft"
cp -a "$backup" "$draft"
chmod 700 "$draft"
cat >>"$draft/postgresql.auto.conf" <<END
restore_command = 'cp "$archive/%f" "%p"'
recovery_target_time = '$moment'
recovery_target_action = 'promote'
END
touch "$draft/recovery.signal"
mv "$draft" "$data"
