"""What any operator needs from Kubernetes: client, cache, work queue, controller, lease, events."""
