#!/bin/bash
# decom.sh: a pod's preStop hook. SIGPWR tells the executor to hand over its blocks; the hook lasts until it is gone.
set -euo pipefail
executor=$(pgrep --oldest --exact java) || exit 0
echo "decommissioning executor $executor"
kill -PWR "$executor"
tail --pid "$executor" -f /dev/null
