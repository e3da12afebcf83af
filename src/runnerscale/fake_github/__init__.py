"""A stand-in for GitHub: REST, Actions service, queue, workflows, faults."""
