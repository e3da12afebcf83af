"""The four kinds, their labels and names, the phase table, the reasons; generates the CRDs."""
