#!/bin/sh
# Prolog of Slurm, run as root on each node of a job: records the job's start for the epilog.
# It never fails, because a failure would drain the node.
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
began=${INGERO_JOBS:-/run/ingero-jobs}
umask 077
mkdir -p "$began" && date +%s >"$began/$SLURM_JOB_ID"
exit 0
