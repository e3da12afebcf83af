"""What docs/security.md claims, each claim with its test."""
