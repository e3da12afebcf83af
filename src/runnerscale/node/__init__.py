"""The node agent: pods of the embedded control plane as local processes.

`agent.py` is where to begin: a pod that is bound to this node gets a worker (`pod_worker.py`),
which observes, plans (`pod_plan.py`, pure) and applies until the pod is over and gone. What a
process is, is a seam (`processes.py`); the real ones are started by `system_processes.py` through
a small shim (`shim.py`) that outlives the agent. Knows nothing of runners, listeners or GitHub.
"""
