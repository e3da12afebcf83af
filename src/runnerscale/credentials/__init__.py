"""From Secret, vault, proxy and CA bundle to a ready scale-set client."""
