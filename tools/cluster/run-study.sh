#!/bin/sh
# Runs a study as a Slurm array job, and prints its state until the results are collected.
#
#   run-study.sh SCENARIO RESULTS TASKS      RESULTS is on a file system that all machines share
set -eu
scenario=$1 results=$2 tasks=$3

poseidon emit slurm "$scenario" --tasks "$tasks" --output "$results" > job.sh
sh job.sh
while squeue --noheader --format=%j | grep -q '^poseidon-'; do
    sleep 2
    poseidon status "$results" || true    # there may be no result yet
done
