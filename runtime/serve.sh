# Starts what srun sends to this node. entry.sh runs it in place of run, on all ranks but 0.
exec "$(command -v python3)" -I "${0%/*}/srun.py" serve
