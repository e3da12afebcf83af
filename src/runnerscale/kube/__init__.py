"""What any operator needs from Kubernetes: client, informer cache, work queue, controller, lease."""
