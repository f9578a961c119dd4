#!/bin/sh
# Prolog of Slurm, as root on each node of a job: notes when it began, for the epilog.
# It never fails, for that would drain the node.
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
began=${INGERO_JOBS:-/run/ingero-jobs}
umask 077
mkdir -p "$began" && date +%s >"$began/$SLURM_JOB_ID"
exit 0
