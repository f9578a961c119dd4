#!/bin/sh
# Epilog of Slurm, run as root on each node of a job. It writes one report, readable by the job's
# user: the time that the job lost on the node, and the culprits. It needs a permanent trace. It
# never fails, and takes at most a minute.
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
began=${INGERO_JOBS:-/run/ingero-jobs}/$SLURM_JOB_ID
reports=${INGERO_REPORTS:-/var/lib/ingero-reports} # users cannot enter /var/lib/ingero
database=${INGERO_DB:-/var/lib/ingero/ingero.db}
from=$(cat "$began") || exit 0 # the prolog has not run: see Slurm's log
rm -f "$began"
umask 022
mkdir -p "$reports" && chmod 711 "$reports" || exit 0
umask 077
report=$reports/$SLURM_JOB_ID-${SLURMD_NODENAME:-$(hostname -s)}
tell() { timeout 30 ingero explain --db "$database" --job "$SLURM_JOB_ID" --from "$from" "$@"; }
tell >"$report.txt" 2>"$report.log" || cat "$report.log" >>"$report.txt"
tell --json >"$report.json" 2>"$report.log" || rm -f "$report.json"
for file in "$report.txt" "$report.json"; do
	[ -e "$file" ] && chown "$SLURM_JOB_UID" "$file"
done
rm -f "$report.log"
exit 0
