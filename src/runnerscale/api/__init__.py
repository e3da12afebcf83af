"""The four kinds of actions.github.com/v1alpha1: fields, names, labels, phases, reasons, CRDs."""
