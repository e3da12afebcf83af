"""One runner's life: registered, given a pod, online, busy, gone. Start reading at `plan.py`."""
